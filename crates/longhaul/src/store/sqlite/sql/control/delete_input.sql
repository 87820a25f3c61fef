-- Nothing of a deleted job stays behind.
DELETE FROM inputs WHERE seq = ?1
