-- The ledger: the only truth about what was read and what is visible.
-- Constraints are named for the fact they guard: that name is what an error shows.

-- A region may be renamed: whatever refers to it follows.
CREATE TABLE tidemark.regions (
    region             text   NOT NULL PRIMARY KEY,
    group_id           text   NOT NULL,
    epoch              bigint NOT NULL DEFAULT 0,  -- fencing number: +1 at each open, reset, rewind
    head_seq           bigint NOT NULL DEFAULT 0,  -- seq of the newest checkpoint, 0 before the first
    oldest_seq         bigint NOT NULL DEFAULT 0,  -- oldest checkpoint that can be restored; 0: all of them
    next_seq           bigint NOT NULL DEFAULT 1,  -- never given out twice
    cluster_id         text   NOT NULL,
    fingerprint        json   NOT NULL DEFAULT '{}',  -- what rows are made with; json keeps the columns' order
    sent_seq           bigint,                     -- newest batch that was read back as sent to the output topic; never falls
    sending_seq        bigint NOT NULL DEFAULT 0,  -- newest batch that a Kafka transaction may have sent, answered or not; never falls
    consecutive_resets int    NOT NULL DEFAULT 0,
    created_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT group_belongs_to_one_region UNIQUE (group_id),
    CONSTRAINT epoch_is_not_negative CHECK (epoch >= 0),
    CONSTRAINT head_was_given_out CHECK (head_seq < next_seq),
    CONSTRAINT oldest_is_not_after_head CHECK (oldest_seq <= head_seq)
);

-- The tables that a region's rows go to; a batch becomes visible in all of them at once.
CREATE TABLE tidemark.targets (
    region      text   NOT NULL REFERENCES tidemark.regions ON DELETE CASCADE ON UPDATE CASCADE,
    target      text   NOT NULL,                   -- its name in the pipeline file; empty: the only one
    table_name  text   NOT NULL,
    table_oid   oid,                               -- the table of that name, kept by the first publish
    key_forms   jsonb  NOT NULL DEFAULT '{}',      -- of an upsert: how each column of its key is a text in the ledger
    pruned_rows bigint NOT NULL DEFAULT 0,         -- rows of published batches that the ledger has forgotten
    undo_pruned_seq bigint NOT NULL DEFAULT 0,     -- newest upsert of which the ledger has forgotten what keys were before
    CONSTRAINT target_is_named_once PRIMARY KEY (region, target),
    CONSTRAINT target_belongs_to_one_region UNIQUE (table_name) DEFERRABLE  -- two may swap their tables
);

CREATE TABLE tidemark.runs (
    region      text   NOT NULL REFERENCES tidemark.regions ON UPDATE CASCADE,
    epoch       bigint NOT NULL,
    run_id      text   NOT NULL,
    opening     uuid   NOT NULL,                   -- tells an open whose COMMIT had no answer that it happened
    state       text   NOT NULL DEFAULT 'open',
    max_records bigint NOT NULL,
    max_bytes   bigint,
    max_batches bigint,
    max_seconds bigint,
    in_flight   int    NOT NULL,
    dead_letters_max_ratio double precision NOT NULL,  -- of a batch's records
    dead_letters_max_count bigint,                 -- in a batch
    backlog     bigint NOT NULL,                   -- offsets between ledger and target offsets at open
    bound       text,                              -- the bound that ended planning, if one did
    reason      text,
    overrides   text[] NOT NULL DEFAULT '{}',
    remarks     text[] NOT NULL DEFAULT '{}',      -- what was found and did not stop the run
    opened_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    closed_at   timestamptz,
    PRIMARY KEY (region, epoch),
    CONSTRAINT opened_once UNIQUE (opening),
    CONSTRAINT in_flight_is_one_or_two CHECK (in_flight IN (1, 2)),
    CONSTRAINT run_state_is_known CHECK (state IN ('open', 'closed', 'failed', 'superseded'))
);
CREATE INDEX runs_by_run_id ON tidemark.runs (region, run_id, epoch);

CREATE TABLE tidemark.run_targets (
    region         text   NOT NULL,
    epoch          bigint NOT NULL,
    topic          text   NOT NULL,
    partition      int    NOT NULL,
    target_offset  bigint NOT NULL,                -- the last stable offset at open
    high_watermark bigint NOT NULL,                -- at open; between the two an open transaction hides records
    stable_since   timestamptz NOT NULL,           -- the open that first saw a transaction hold the target offset
    PRIMARY KEY (region, epoch, topic, partition),
    FOREIGN KEY (region, epoch) REFERENCES tidemark.runs ON DELETE CASCADE ON UPDATE CASCADE
);

-- Display only: no decision reads it.
CREATE TABLE tidemark.members (
    member       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    region       text   NOT NULL REFERENCES tidemark.regions ON UPDATE CASCADE,
    epoch        bigint NOT NULL,
    uuid         uuid   NOT NULL,
    name         text   NOT NULL,
    state        text   NOT NULL DEFAULT 'subscribed',
    partitions   text[] NOT NULL DEFAULT '{}',
    drain_ms     bigint,
    drain_ms_max bigint,
    joined_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT member_registered_once UNIQUE (uuid)
);
CREATE INDEX members_by_epoch ON tidemark.members (region, epoch);

-- One history of a partition. When records were lost and a person says so, it goes on as a new history
-- with an initial offset of its own; the ended one keeps what was read of it. A history that an open ended,
-- and those before it, are of a log that may hold other records now; a corrupt range leaves the log as it is.
CREATE TABLE tidemark.partitions (
    partition_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    region         text   NOT NULL REFERENCES tidemark.regions ON UPDATE CASCADE,
    topic          text   NOT NULL,
    partition      int    NOT NULL,
    topic_id       text   NOT NULL,
    initial_offset bigint NOT NULL,                -- written once, kept for ever
    next_offset    bigint NOT NULL,
    record_end     bigint,                         -- offset after the last record consumed
    leader_epoch   int,                            -- of that record: it holds for record_end alone (KIP-320)
    seq            bigint NOT NULL DEFAULT 0,      -- checkpoint that moved it last
    ended_epoch    bigint,                         -- the run that was told to go on without it
    ended_seq      bigint,                         -- the head when a corrupt range ended it; null: an open did
    CONSTRAINT next_is_not_before_initial CHECK (next_offset >= initial_offset AND initial_offset >= 0),
    CONSTRAINT record_end_is_not_after_next_offset CHECK (record_end <= next_offset)
) WITH (fillfactor = 50);                          -- a publish changes all of them: no index need know
CREATE UNIQUE INDEX partition_is_known_once ON tidemark.partitions (region, topic, partition)
    WHERE ended_epoch IS NULL;

CREATE FUNCTION tidemark.initial_offset_is_kept() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog AS $$
BEGIN
    RAISE EXCEPTION 'initial offset of %[%] is % and stays so', OLD.topic, OLD.partition, OLD.initial_offset
        USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'initial_offset_is_kept';
END $$;
CREATE TRIGGER initial_offset_is_kept BEFORE UPDATE OF initial_offset ON tidemark.partitions
    FOR EACH ROW WHEN (OLD.initial_offset <> NEW.initial_offset)
    EXECUTE FUNCTION tidemark.initial_offset_is_kept();

CREATE TABLE tidemark.batches (
    region                   text   NOT NULL REFERENCES tidemark.regions ON UPDATE CASCADE,
    seq                      bigint NOT NULL,
    uuid                     uuid   NOT NULL DEFAULT gen_random_uuid(),  -- a restored ledger gives the seq to another
    epoch                    bigint NOT NULL,
    previous_seq             bigint NOT NULL,      -- becomes visible just before it; 0: nothing does
    in_flight                int    NOT NULL,      -- of its run
    kind                     text   NOT NULL DEFAULT 'drain',  -- replay: of dead letters, without spans; again: see again_seq
    state                    text   NOT NULL DEFAULT 'planned',
    spans                    bigint NOT NULL DEFAULT 0,  -- of its plan
    claimed                  bigint NOT NULL DEFAULT 0,  -- of these; who contributes or waits must not count them
    records                  bigint,
    rows_contributed         bigint,
    rows_moved               bigint,
    rows_refused             bigint NOT NULL DEFAULT 0,  -- by the target; their records are dead letters
    rows_deleted             bigint NOT NULL DEFAULT 0,  -- keys that an upsert deleted
    rows_superseded          bigint NOT NULL DEFAULT 0,  -- an upsert met a newer row of the same key
    records_refused          bigint NOT NULL DEFAULT 0,
    dead_letters_contributed bigint,
    dead_letters_moved       bigint,
    dead_letters_purged      bigint NOT NULL DEFAULT 0,  -- of the moved ones, by a person
    dead_letters_replayed    bigint NOT NULL DEFAULT 0,  -- of the moved ones, by later batches
    letters_replayed         bigint NOT NULL DEFAULT 0,  -- by this batch, of its records
    letters_kept             bigint NOT NULL DEFAULT 0,  -- the others: they are dead letters still
    again_seq                bigint,               -- the unpublished batch under which its rows were staged anew, last
    withheld                 boolean NOT NULL DEFAULT false,  -- a person wants it never sent to the output topic
    planned_at               timestamptz NOT NULL DEFAULT clock_timestamp(),
    published_at             timestamptz,
    PRIMARY KEY (region, seq),
    CONSTRAINT previous_batch_is_older CHECK (previous_seq < seq),
    CONSTRAINT batch_state_is_known CHECK (state IN ('planned', 'published', 'rewound')),
    CONSTRAINT published_batch_is_claimed CHECK (
        claimed <= spans AND (state = 'planned' OR claimed = spans)),
    CONSTRAINT published_batch_is_counted CHECK (
        state = 'planned' OR (published_at IS NOT NULL AND records IS NOT NULL
            AND rows_contributed IS NOT NULL AND rows_moved IS NOT NULL
            AND dead_letters_contributed IS NOT NULL AND dead_letters_moved IS NOT NULL)),
    CONSTRAINT moved_rows_equal_contributed CHECK (
        rows_moved + rows_refused + rows_deleted + rows_superseded = rows_contributed),
    CONSTRAINT moved_dead_letters_equal_contributed CHECK (
        dead_letters_moved + letters_kept = dead_letters_contributed + records_refused),
    CONSTRAINT purged_dead_letters_were_moved CHECK (
        dead_letters_purged >= 0 AND dead_letters_replayed >= 0
        AND dead_letters_purged + dead_letters_replayed <= coalesce(dead_letters_moved, 0)),
    CONSTRAINT batch_kind_is_known CHECK (kind IN ('drain', 'replay') OR (kind = 'again' AND state = 'planned')),
    CONSTRAINT withheld_batch_was_published CHECK (NOT withheld OR state <> 'planned'),
    CONSTRAINT chosen_letters_are_replayed_or_kept CHECK (
        CASE WHEN kind = 'replay' AND state <> 'planned' THEN letters_replayed + letters_kept = records
             ELSE letters_replayed = 0 AND letters_kept = 0 END)
);
-- The seqs of an epoch follow one another.
CREATE UNIQUE INDEX unpublished_batches_are_in_flight ON tidemark.batches (region, (seq % in_flight)) WHERE state = 'planned';
CREATE UNIQUE INDEX batches_follow_one_another ON tidemark.batches (region, previous_seq) WHERE state <> 'rewound';
CREATE INDEX batches_by_epoch ON tidemark.batches (region, epoch, seq);
CREATE INDEX batches_with_dead_letters ON tidemark.batches (region) INCLUDE (dead_letters_moved, dead_letters_purged, dead_letters_replayed)
    WHERE state = 'published' AND dead_letters_moved > 0;

CREATE INDEX batches_withheld ON tidemark.batches (region, seq) WHERE withheld;

-- What of a batch went to one target. The batch itself has the sums: a target that is missing here shows there.
CREATE TABLE tidemark.batch_targets (
    region           text   NOT NULL,
    seq              bigint NOT NULL,
    target           text   NOT NULL,
    rows_contributed bigint NOT NULL,
    rows_moved       bigint NOT NULL,
    rows_refused     bigint NOT NULL,
    rows_deleted     bigint NOT NULL,
    rows_superseded  bigint NOT NULL,
    key              text[],                       -- columns that they were upserted by; null: they were appended
    PRIMARY KEY (region, seq, target),
    FOREIGN KEY (region, seq) REFERENCES tidemark.batches ON DELETE CASCADE ON UPDATE CASCADE,
    CONSTRAINT moved_rows_equal_contributed CHECK (
        rows_moved + rows_refused + rows_deleted + rows_superseded = rows_contributed)
);

-- A rewind to the initial state removes the rows of forgotten batches too, and must know how many there are.
CREATE FUNCTION tidemark.pruned_rows_are_counted() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog AS $$
BEGIN
    UPDATE tidemark.targets t SET pruned_rows = t.pruned_rows + b.rows_moved
        FROM tidemark.batch_targets b
        WHERE b.region = OLD.region AND b.seq = OLD.seq
          AND t.region = b.region AND t.target = b.target;
    RETURN OLD;
END $$;
-- Before: the batch takes its counts by target with it.
CREATE TRIGGER pruned_rows_are_counted BEFORE DELETE ON tidemark.batches
    FOR EACH ROW WHEN (OLD.state = 'published') EXECUTE FUNCTION tidemark.pruned_rows_are_counted();

CREATE TABLE tidemark.contributions (
    contribution   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    region         text   NOT NULL,
    seq            bigint NOT NULL,
    member         bigint NOT NULL REFERENCES tidemark.members,
    attempts       bigint[] NOT NULL,              -- winning task attempts whose staged rows count
    targets        text[] NOT NULL,                -- each with the number of its staged rows
    rows           bigint[] NOT NULL,
    contributed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT each_target_is_counted CHECK (cardinality(targets) = cardinality(rows)),
    FOREIGN KEY (region, seq) REFERENCES tidemark.batches ON DELETE CASCADE ON UPDATE CASCADE
);
CREATE INDEX contributions_by_batch ON tidemark.contributions (region, seq);
CREATE INDEX contributions_by_member ON tidemark.contributions (member);

CREATE TABLE tidemark.spans (
    region       text    NOT NULL,
    seq          bigint  NOT NULL,
    partition_id bigint  NOT NULL REFERENCES tidemark.partitions,
    topic        text    NOT NULL,
    partition    int     NOT NULL,
    start_offset bigint  NOT NULL,
    end_offset   bigint  NOT NULL,
    topic_id     text    NOT NULL,
    contribution bigint  REFERENCES tidemark.contributions ON DELETE CASCADE,
    attempt      bigint,                           -- the reader's attempt whose dead letters count
    records      bigint,
    dead_letters bigint,
    bytes        bigint,                           -- values, as read
    record_end   bigint,                           -- offset after the last record up to its end; null if unknown
    leader_epoch int,                              -- of that record, which may lie before the span
    live         boolean NOT NULL DEFAULT true,
    PRIMARY KEY (region, seq, topic, partition),
    FOREIGN KEY (region, seq) REFERENCES tidemark.batches ON DELETE CASCADE ON UPDATE CASCADE,
    CONSTRAINT span_not_empty CHECK (start_offset < end_offset),
    CONSTRAINT claimed_span_is_counted CHECK (
        (contribution IS NULL) = (attempt IS NULL)
        AND (contribution IS NULL) = (records IS NULL)
        AND (contribution IS NULL) = (dead_letters IS NULL)),
    CONSTRAINT spans_do_not_overlap EXCLUDE USING gist (
        int8range(partition_id, partition_id, '[]') WITH &&,
        int8range(start_offset, end_offset) WITH &&) WHERE (live)
);
-- A partition's live spans in order, with where each ends: no heap is read to restore a checkpoint.
CREATE INDEX spans_by_partition ON tidemark.spans (partition_id, seq) INCLUDE (end_offset) WHERE live;
CREATE INDEX spans_by_contribution ON tidemark.spans (contribution) WHERE contribution IS NOT NULL;

CREATE TABLE tidemark.dead_letters (
    region       text   NOT NULL,
    partition_id bigint NOT NULL REFERENCES tidemark.partitions,
    topic        text   NOT NULL,
    partition    int    NOT NULL,
    "offset"     bigint NOT NULL,
    seq          bigint NOT NULL,
    timestamp_ms bigint,
    key          bytea,
    value        bytea,
    headers      jsonb,
    reason       text   NOT NULL,
    detail       text   NOT NULL,
    refused_rows jsonb,                            -- what the transform made of it, if the target refused that; cut: a text that begins it
    hash         bytea,                            -- SHA-256 of the whole record, or of what the target refused as JSON
    whole_bytes  bigint,                           -- of that, where only the beginning is kept; null: all of it is
    chosen_seq   bigint,                           -- the replay that chose it last
    kept_seq     bigint,                           -- the replay in which it failed again last
    replayed_seq bigint,                           -- the batch that made rows of it; null: none did
    CONSTRAINT a_record_is_a_dead_letter_once PRIMARY KEY (partition_id, "offset"),
    CONSTRAINT a_replay_is_newer CHECK (replayed_seq > seq),
    CONSTRAINT a_cut_letter_has_its_hash CHECK (whole_bytes IS NULL OR hash IS NOT NULL),
    FOREIGN KEY (region, seq) REFERENCES tidemark.batches ON UPDATE CASCADE
);
CREATE INDEX dead_letters_by_replay ON tidemark.dead_letters (region, replayed_seq) WHERE replayed_seq IS NOT NULL;
CREATE INDEX dead_letters_by_choice ON tidemark.dead_letters (region, chosen_seq) WHERE chosen_seq IS NOT NULL;
CREATE INDEX dead_letters_by_record ON tidemark.dead_letters (region, topic, partition, "offset");
CREATE INDEX dead_letters_by_seq ON tidemark.dead_letters (region, seq);

-- The dead letters that a replay can take, of which the ledger has the whole record or its hash. One replay knows a record by
-- topic, partition and offset: of two histories of a partition it takes the one that waits longest, then the older.
CREATE FUNCTION tidemark.replayable(
    the_region text, reasons text[], since timestamptz, until timestamptz, only_topic text, only_partition int
) RETURNS TABLE (partition_id bigint, "offset" bigint, kept_seq bigint) LANGUAGE sql STABLE AS $$  -- without SET: it is planned in place
    SELECT DISTINCT ON (d.topic, d.partition, d."offset") d.partition_id, d."offset", d.kept_seq
    FROM tidemark.dead_letters d JOIN tidemark.batches b USING (region, seq)
    WHERE d.region = the_region AND d.replayed_seq IS NULL AND d.refused_rows IS NULL
      AND d.headers IS NOT NULL  -- else they are unknown, and not the record
      AND d.reason = ANY (coalesce(reasons, ARRAY[d.reason]))
      AND b.published_at >= coalesce(since, '-infinity')
      AND b.published_at < coalesce(until, 'infinity')
      AND d.topic = coalesce(only_topic, d.topic)
      AND d.partition = coalesce(only_partition, d.partition)
    ORDER BY d.topic, d.partition, d."offset", d.kept_seq NULLS FIRST, d.partition_id
$$;

-- What a batch of an upsert found of a key that it changed: a rewind puts it back. Keys are the texts of the
-- target's values. A key that was not there has no row here.
CREATE TABLE tidemark.undo (
    region      text    NOT NULL,
    target      text    NOT NULL,
    seq         bigint  NOT NULL,
    key         text[]  COLLATE "C" NOT NULL,
    before_seq  bigint  NOT NULL,                  -- the batch that had made it so; 0: none
    was_deleted boolean NOT NULL,
    before      text[]  NOT NULL,                  -- each column's text; of a deleted key topic, partition, order
    CONSTRAINT key_changes_once_in_a_batch PRIMARY KEY (region, target, seq, key),
    CONSTRAINT before_is_older CHECK (before_seq < seq)
);

-- How many rows each published batch from `since` on has left in a target: those that it moved, but for those that
-- later batches replaced or deleted. Of a table that was restored from a dump one is replaced twice: it counts once.
CREATE FUNCTION tidemark.rows_left(the_region text, the_target text, since bigint)
RETURNS TABLE (seq bigint, rows bigint) LANGUAGE sql STABLE AS $$  -- without SET: it is planned in place
    SELECT b.seq, greatest(0, coalesce(t.rows_moved, 0) - coalesce(gone.rows, 0))
    FROM tidemark.batches b
    LEFT JOIN tidemark.batch_targets t
        ON t.region = the_region AND t.seq = b.seq AND t.seq >= since AND t.target = the_target
    LEFT JOIN (SELECT u.before_seq, count(DISTINCT u.key) AS rows FROM tidemark.undo u
               WHERE u.region = the_region AND u.target = the_target AND u.seq > since AND NOT u.was_deleted
               GROUP BY u.before_seq) gone ON gone.before_seq = b.seq
    WHERE b.region = the_region AND b.state = 'published' AND b.seq >= since
$$;

-- The columns of the target, in the order of `before`, when a batch's undo was written.
CREATE TABLE tidemark.undo_columns (
    region  text   NOT NULL,
    target  text   NOT NULL,
    seq     bigint NOT NULL,
    columns text[] NOT NULL,
    PRIMARY KEY (region, seq, target),
    FOREIGN KEY (region, seq) REFERENCES tidemark.batches ON DELETE CASCADE ON UPDATE CASCADE
);

-- Keys that an upsert deleted and that did not come back. They keep an older row of another partition out.
CREATE TABLE tidemark.deleted_keys (
    region    text   NOT NULL REFERENCES tidemark.regions ON UPDATE CASCADE,
    target    text   NOT NULL,
    key       text[] COLLATE "C" NOT NULL,
    seq       bigint NOT NULL,
    topic     text   NOT NULL,
    partition int    NOT NULL,
    order_by  text,                                -- the value of that column; null without one
    CONSTRAINT key_is_deleted_once PRIMARY KEY (region, target, key)
);

-- What a batch of an upsert sends to the output topic, until it is read back as sent. Without a value the key is
-- deleted there.
CREATE TABLE tidemark.outbox (
    region text   NOT NULL,
    seq    bigint NOT NULL,
    target text   NOT NULL,                        -- another one may be sent later
    number bigint NOT NULL,                        -- in the order of the records
    key    text   NOT NULL,
    value  text,
    CONSTRAINT output_is_kept_once PRIMARY KEY (region, seq, target, number)
);

CREATE TABLE tidemark.resets (
    reset_id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    region        text   NOT NULL REFERENCES tidemark.regions ON UPDATE CASCADE,
    epoch         bigint NOT NULL,                 -- the epoch that the reset took
    requested_by  text   NOT NULL,
    why           text   NOT NULL,
    database_user text   NOT NULL DEFAULT session_user,  -- who is named is told; this is the login
    run_id        text,                            -- the run it cleans up after; null by hand
    request_id    text,                            -- who asks under this name resets once; null: each time
    resetting     uuid   NOT NULL,
    discarded_seqs bigint[] NOT NULL DEFAULT '{}',
    from_seq      bigint NOT NULL,
    to_seq        bigint NOT NULL,
    batches       bigint NOT NULL DEFAULT 0,       -- published after to_seq, when the reset began
    rows_expected bigint NOT NULL DEFAULT 0,       -- of these batches
    rows_removed  bigint NOT NULL DEFAULT 0,
    dead_letters_expected bigint NOT NULL DEFAULT 0,
    dead_letters_removed  bigint NOT NULL DEFAULT 0,
    overrides     text[] NOT NULL DEFAULT '{}',
    state         text   NOT NULL DEFAULT 'started',
    started_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at   timestamptz,
    CONSTRAINT reset_once UNIQUE (resetting),
    CONSTRAINT reset_state_is_known CHECK (state IN ('started', 'finished', 'superseded')),
    CONSTRAINT removed_rows_equal_published CHECK (
        state <> 'finished' OR rows_removed = rows_expected OR 'accept_changes' = ANY (overrides)),
    CONSTRAINT removed_dead_letters_equal_published CHECK (
        state <> 'finished' OR dead_letters_removed = dead_letters_expected
        OR 'accept_changes' = ANY (overrides))
);
CREATE INDEX resets_by_epoch ON tidemark.resets (region, epoch);
CREATE INDEX resets_by_request ON tidemark.resets (region, request_id) WHERE request_id IS NOT NULL;

-- What people did to a region besides resets, and what they let a driver do. It outlives the region.
CREATE TABLE tidemark.actions (
    action_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    region       text   NOT NULL,
    kind         text   NOT NULL,
    requested_by text   NOT NULL,
    why          text   NOT NULL,
    database_user text  NOT NULL DEFAULT session_user,
    details      jsonb  NOT NULL DEFAULT '{}',
    at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT action_is_known CHECK (
        kind IN ('purge', 'drop', 'rename', 'move', 'add_columns', 'withhold', 'override'))
);
CREATE INDEX actions_by_region ON tidemark.actions (region, action_id);

-- Moves every partition of a batch from its span's start to its span's end, or none.
CREATE FUNCTION tidemark.advance_partitions(the_region text, the_seq bigint) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    planned bigint;
    moved   bigint;
BEGIN
    SELECT count(*) INTO planned FROM tidemark.spans s
        WHERE s.region = the_region AND s.seq = the_seq AND s.live;
    -- A span without a record leaves the log read up to where it was, and says so: pruning may keep no span before it.
    UPDATE tidemark.spans s
        SET record_end = p.record_end, leader_epoch = p.leader_epoch
        FROM tidemark.partitions p
        WHERE s.region = the_region AND s.seq = the_seq AND s.live AND s.record_end IS NULL
          AND p.partition_id = s.partition_id AND p.record_end IS NOT NULL;
    UPDATE tidemark.partitions p
        SET next_offset = s.end_offset, seq = the_seq,
            record_end = s.record_end, leader_epoch = s.leader_epoch
        FROM tidemark.spans s
        WHERE s.region = the_region AND s.seq = the_seq AND s.contribution IS NOT NULL AND s.live
          AND p.partition_id = s.partition_id
          AND p.ended_epoch IS NULL
          AND p.topic_id = s.topic_id
          AND p.next_offset = s.start_offset;
    GET DIAGNOSTICS moved = ROW_COUNT;
    IF moved <> planned THEN
        RAISE EXCEPTION 'batch % of region %: % of % partitions stand at the start of their span',
            the_seq, the_region, moved, planned
            USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'partition_stands_at_span_start';
    END IF;
    RETURN moved;
END $$;

-- Raises unless the region's epoch is the expected one; then takes the next, past any that Kafka has seen.
CREATE FUNCTION tidemark.take_epoch(the_region text, expected bigint, seen bigint) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    taken bigint;
BEGIN
    UPDATE tidemark.regions SET epoch = greatest(epoch, seen) + 1
        WHERE region = the_region AND epoch = expected RETURNING epoch INTO taken;
    IF taken IS NULL THEN
        RAISE EXCEPTION 'region % is not at epoch %', the_region, expected
            USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'epoch_is_the_expected_one';
    END IF;
    RETURN taken;
END $$;

-- For dashboards and alerts: one row a region. lag is that of the newest run's target offsets; newest_run_* are
-- of the newest run, whatever holds the epoch now.
CREATE VIEW tidemark.region_status AS
SELECT r.region,
       coalesce(run.state, 'reset') AS state,
       r.epoch,
       r.head_seq,
       (SELECT min(b.seq) FROM tidemark.batches b WHERE b.region = r.region AND b.state = 'planned') AS unpublished_seq,
       (SELECT sum(greatest(t.target_offset - p.next_offset, 0))::bigint
        FROM tidemark.run_targets t JOIN tidemark.partitions p
            ON p.region = t.region AND p.topic = t.topic AND p.partition = t.partition AND p.ended_epoch IS NULL
        WHERE t.region = r.region
          AND t.epoch = (SELECT max(n.epoch) FROM tidemark.runs n WHERE n.region = r.region)) AS lag,
       head.published_at AS last_checkpoint_at,
       extract(epoch FROM clock_timestamp() - head.published_at)::bigint AS last_checkpoint_age_s,
       (SELECT coalesce(sum(b.dead_letters_moved - b.dead_letters_purged - b.dead_letters_replayed), 0)::bigint FROM tidemark.batches b
        WHERE b.region = r.region AND b.state = 'published' AND b.dead_letters_moved > 0) AS dead_letters,
       r.consecutive_resets,
       (SELECT count(*) FROM tidemark.members m WHERE m.region = r.region AND m.epoch = r.epoch
            AND m.state NOT IN ('done', 'failed', 'reset complete')) AS members,
       run.run_id,
       run.opened_at,
       run.closed_at,
       run.reason,
       newest.opened_at AS newest_run_opened_at,
       newest.reason AS newest_run_reason,
       hidden.lso_lag,
       hidden.lso_stuck_since
FROM tidemark.regions r
LEFT JOIN tidemark.runs run ON run.region = r.region AND run.epoch = r.epoch
LEFT JOIN tidemark.batches head ON head.region = r.region AND head.seq = r.head_seq
LEFT JOIN LATERAL (SELECT n.epoch, n.opened_at, n.reason FROM tidemark.runs n
                   WHERE n.region = r.region ORDER BY n.epoch DESC LIMIT 1) newest ON true
-- A transaction that was open at an earlier open and still is: fresh ones are the usual traffic.
LEFT JOIN LATERAL (SELECT sum(t.high_watermark - t.target_offset)::bigint AS lso_lag,
                          min(t.stable_since) AS lso_stuck_since
                   FROM tidemark.run_targets t
                   WHERE t.region = r.region AND t.epoch = newest.epoch
                     AND t.target_offset < t.high_watermark AND t.stable_since < newest.opened_at) hidden ON true;
