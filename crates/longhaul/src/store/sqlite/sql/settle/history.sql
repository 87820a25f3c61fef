-- Reads a job's events before and since its last claim. Only reads of complete records and jobs with a long history
-- use it.
SELECT history, events FROM records WHERE seq = ?1
