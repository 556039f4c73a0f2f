SELECT state FROM tidemark.resets WHERE resetting = %(uuid)s
