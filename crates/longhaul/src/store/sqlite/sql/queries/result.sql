-- Apart from the job's row, which every transition rewrites.
SELECT result FROM results WHERE seq = ?1
