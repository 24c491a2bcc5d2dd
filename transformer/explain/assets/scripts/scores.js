// scores
