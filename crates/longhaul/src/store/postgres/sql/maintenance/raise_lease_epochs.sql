-- Raises the epochs of leases, after a restore, so that their workers write nothing.
UPDATE longhaul.leases SET epoch = epoch + $1::bigint
