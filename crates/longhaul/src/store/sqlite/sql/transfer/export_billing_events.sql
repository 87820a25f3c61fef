-- Lists the applied events of the payment provider page by page, so that none is applied again.
SELECT * FROM billing_events
WHERE id > ?1
ORDER BY id
LIMIT ?2
