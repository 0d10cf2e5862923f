PRACTICE = {}  # there is nothing to learn
BATCHWISE = "a number drawn for a place, not for a step; its distribution is test_knowledge's"
