-- Whoever stops in good order need not be waited for.
DELETE FROM replicas WHERE name = ?1
