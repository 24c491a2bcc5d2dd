// backprop
