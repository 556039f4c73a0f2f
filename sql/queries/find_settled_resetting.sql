-- Did the reset whose COMMIT had no answer happen?
SELECT epoch FROM tidemark.resets WHERE resetting = %(uuid)s
