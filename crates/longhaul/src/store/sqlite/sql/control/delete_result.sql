-- Nothing of a deleted job stays behind.
DELETE FROM results WHERE seq = ?1
