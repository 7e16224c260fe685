-- MAC of what the request's JSON says; `request` is the one of its bytes, which older gateways compare.
alter table idempotency_keys add column request_json bytea;
