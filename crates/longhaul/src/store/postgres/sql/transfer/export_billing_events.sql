-- Lists the applied events of the payment provider page by page, so that none is applied again.
SELECT row_to_json(exported)::text FROM longhaul.billing_events AS exported
WHERE id > $1::text
ORDER BY id
LIMIT $2::bigint
