-- How a region's next run comes about: what refused its newest open, and whether its doorbell can look.
-- For doorbells and for people: no decision of a run reads them. A region may be named here that never opened.

-- The newest open that took no epoch. It stands until the region has another epoch, or its run has closed since.
CREATE TABLE tidemark.refused_opens (
    region      text   NOT NULL,
    epoch       bigint NOT NULL,                   -- the region's when it was refused; 0 before its first open
    run_id      text   NOT NULL,
    code        text   NOT NULL,                   -- of the error, or its class where it is not one of ours
    error_case  text   NOT NULL,
    fingerprint text   NOT NULL,                   -- of the pipeline file that it was given
    refused_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT newest_refusal_is_kept PRIMARY KEY (region)
);

-- What a doorbell says of itself, now and then.
CREATE TABLE tidemark.doorbells (
    region     text   NOT NULL,
    code       text,                               -- of the error that keeps it from looking; null: it looks
    error_case text,
    since      timestamptz NOT NULL DEFAULT clock_timestamp(),  -- when the code became this one
    said_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT region_has_one_doorbell PRIMARY KEY (region)
);
