// projections
