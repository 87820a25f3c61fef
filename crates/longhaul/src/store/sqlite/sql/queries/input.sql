-- Apart from the job's row, which every transition rewrites.
SELECT input FROM inputs WHERE seq = ?1
