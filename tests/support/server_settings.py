"""What a role or a database may set in a session of ours, and what each setting is to us."""

from contextlib import closing
from typing import Any

import psycopg2

from tidemark.postgres.session import NEEDED, SETTINGS

HARMLESS = {
    "they choose a plan: its rows are the same": """
        constraint_exclusion cpu_index_tuple_cost cpu_operator_cost cpu_tuple_cost
        cursor_tuple_fraction debug_parallel_query default_statistics_target effective_cache_size
        enable_async_append enable_bitmapscan enable_distinct_reordering enable_eager_aggregate
        enable_gathermerge enable_group_by_reordering enable_hashagg enable_hashjoin
        enable_incremental_sort enable_indexonlyscan enable_indexscan enable_material enable_memoize
        enable_mergejoin enable_nestloop enable_parallel_append enable_parallel_hash
        enable_partition_pruning enable_partitionwise_aggregate enable_partitionwise_join
        enable_presorted_aggregate enable_self_join_elimination enable_seqscan enable_sort
        enable_tidscan force_parallel_mode from_collapse_limit geqo geqo_effort geqo_generations
        geqo_pool_size geqo_seed geqo_selection_bias geqo_threshold ignore_system_indexes jit
        jit_above_cost jit_debugging_support jit_dump_bitcode jit_expressions jit_inline_above_cost
        jit_optimize_above_cost jit_profiling_support jit_tuple_deforming join_collapse_limit
        max_parallel_maintenance_workers max_parallel_workers max_parallel_workers_per_gather
        min_eager_agg_group_size min_parallel_index_scan_size min_parallel_table_scan_size
        optimize_bounded_sort parallel_leader_participation parallel_setup_cost parallel_tuple_cost
        plan_cache_mode random_page_cost recursive_worktable_factor seq_page_cost
        synchronize_seqscans
    """,
    "memory, buffers and how a disk is used": """
        backend_flush_after commit_delay commit_siblings effective_io_concurrency file_copy_method
        gin_pending_list_limit hash_mem_multiplier io_combine_limit logical_decoding_work_mem
        maintenance_io_concurrency maintenance_work_mem temp_buffers vacuum_buffer_usage_limit
        wal_compression wal_init_zero wal_recycle wal_skip_threshold work_mem
    """,
    "what goes to logs, statistics and the client's notices": """
        application_name backtrace_functions client_min_messages compute_query_id debug_deadlocks
        debug_pretty_print debug_print_parse debug_print_plan debug_print_raw_parse
        debug_print_rewritten escape_string_warning lc_messages log_btree_build_stats
        log_connections log_disconnections log_duration log_error_verbosity log_executor_stats
        log_lock_failures log_lock_waits log_min_duration_sample log_min_duration_statement
        log_min_error_statement log_min_messages log_parameter_max_length
        log_parameter_max_length_on_error log_parser_stats log_planner_stats
        log_replication_commands log_statement log_statement_sample_rate log_statement_stats
        log_temp_files log_transaction_sample_rate md5_password_warnings stats_fetch_consistency
        timing_clock_source trace_lock_oidmin trace_lock_table trace_locks trace_lwlocks
        trace_notify trace_sort trace_syncscan trace_userlocks track_activities
        track_cost_delay_timing track_counts track_functions track_io_timing track_wal_io_timing
        update_process_title wal_debug
    """,
    "vacuum alone heeds them": """
        vacuum_cost_delay vacuum_cost_limit vacuum_cost_page_dirty vacuum_cost_page_hit
        vacuum_cost_page_miss vacuum_failsafe_age vacuum_freeze_min_age vacuum_freeze_table_age
        vacuum_max_eager_freeze_failure_rate vacuum_multixact_failsafe_age
        vacuum_multixact_freeze_min_age vacuum_multixact_freeze_table_age vacuum_truncate
    """,
    "of statements that no session of ours sends: roles, large objects, replication": """
        allow_in_place_tablespaces allow_system_table_mods createrole_self_grant
        debug_logical_replication_streaming icu_validation_level lo_compat_privileges
        password_encryption scram_iterations wal_receiver_timeout wal_sender_shutdown_timeout
        wal_sender_timeout
    """,
    "where and how files of tables are kept: the administrator's choice, a table is the same": """
        default_tablespace default_toast_compression temp_tablespaces
    """,
    "whose programs the server loads: the administrator's": """
        dynamic_library_path extension_control_path extension_destdir local_preload_libraries
        session_preload_libraries
    """,
    "each transaction takes them from the default_* that is set": """
        transaction_deferrable transaction_isolation transaction_read_only
    """,
    "only functions of the target's owner spell numbers, days and words so": """
        default_text_search_config lc_numeric lc_time
    """,
    "when a function is made, or an event trigger of others fires": """
        check_function_bodies event_triggers
    """,
    "it ends a statement only of a client that is gone, or of a deadlock": """
        client_connection_check_interval deadlock_timeout
    """,
    "no expression of ours is as deep as the least that it may be": """
        max_stack_depth
    """,
    "for who develops Postgres: a check of itself, or a pause": """
        debug_copy_parse_plan_trees debug_discard_caches debug_raw_expression_coverage_test
        debug_write_read_parse_plan_trees post_auth_delay wal_consistency_checking
    """,
}
"""By reason: settings that end no session and no statement of ours, and change no value."""

TOLD_BY_CHECK = {"synchronous_commit", "temp_file_limit"}
"""The administrator's own choice: `tidemark check` names it."""

_ASKED = """
SELECT name FROM pg_catalog.pg_settings
WHERE context IN ('user', 'superuser', 'backend', 'superuser-backend') AND name !~ '[.]'
"""


def unknown_settings(parameters: dict[str, Any]) -> set[str]:
    """Settings of this server that nobody has judged; those of extensions are their owners'."""
    with closing(psycopg2.connect(**parameters)) as session, session.cursor() as cursor:
        cursor.execute(_ASKED)
        found = {name for (name,) in cursor.fetchall()}
    ours = {name.lower() for name in SETTINGS} | {"client_encoding"} | set(NEEDED)
    harmless = {name for names in HARMLESS.values() for name in names.split()}
    return {name for name in found if name.lower() not in ours} - harmless - TOLD_BY_CHECK
