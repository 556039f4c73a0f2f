-- The tables of orders_cdc as the first run makes them: tests/unit/test_testing.py holds that.
CREATE TABLE public.orders (
    order_id bigint PRIMARY KEY,
    customer text,
    status text,
    amount numeric(10,2),
    updated_at timestamp with time zone,
    kafka_topic text,
    kafka_partition integer,
    kafka_offset bigint,
    batch_seq bigint NOT NULL
);
CREATE TABLE public.order_history (
    order_id bigint,
    customer text,
    status text,
    amount numeric(10,2),
    updated_at timestamp with time zone,
    deleted boolean,
    kafka_topic text,
    kafka_partition integer,
    kafka_offset bigint,
    batch_seq bigint NOT NULL
);
