"""Faults of API and security, and the tests that prove each: `python -m tests.interfaces.http.fault_table`."""

from __future__ import annotations

import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. `tests` are `file::function` below tests/; where there are none `remark` says why."""

    id: str
    setup: str
    holds: str
    tests: tuple[str, ...]
    remark: str = ""


_HTTP = "interfaces/http"

FAULTS = (
    Fault(
        "A01",
        "foreign, doubled, missing, odd Host",
        "403, or 400 from the server",
        (
            f"{_HTTP}/test_guard.py::test_every_combination_is_answered_as_three_lines_say",
            f"{_HTTP}/test_server.py::test_what_is_no_proper_request_is_refused",
            f"{_HTTP}/test_curl.py::test_without_the_token_or_from_elsewhere_it_refuses",
        ),
    ),
    Fault(
        "A02",
        "cross-site POST, form, null Origin, Sec-Fetch-Site",
        "403; 415 for what is not JSON; GET needs the token too",
        (
            f"{_HTTP}/test_guard.py::test_every_combination_is_answered_as_three_lines_say",
            f"{_HTTP}/test_guard.py::test_a_browser_that_says_the_request_comes_from_another_site_is_believed",
            f"{_HTTP}/test_guard.py::test_a_body_is_json_and_says_so",
            f"{_HTTP}/test_curl.py::test_a_form_as_curl_sends_it_by_itself_is_refused",
        ),
    ),
    Fault(
        "A03",
        "token missing, wrong, readable by others",
        "401; the file is 0600 in a 0700 folder, else replaced",
        (
            f"{_HTTP}/test_guard.py::test_a_header_that_is_not_the_token_opens_nothing",
            f"{_HTTP}/test_guard.py::test_the_token_in_an_address_opens_nothing",
            f"{_HTTP}/test_token.py::test_it_is_made_once_for_its_owner_only_whatever_the_umask",
            f"{_HTTP}/test_token.py::test_one_that_others_could_read_or_write_is_replaced",
            f"{_HTTP}/test_server.py::test_without_the_token_nothing_is_told",
        ),
    ),
    Fault(
        "A04",
        "stale socket, link or file in its place, long path",
        "replaced, private; what a link points at stays",
        (
            f"{_HTTP}/test_server.py::test_what_lies_where_the_socket_goes_is_replaced",
            "interfaces/test_http_refusals.py::test_only_the_owner_reaches_the_socket",
            "config/test_locations.py::test_a_socket_path_that_would_be_too_long_moves_to_a_private_folder",
        ),
        "other users cannot enter the 0700 folder: no look at the peer's uid",
    ),
    Fault(
        "A05",
        "bind to 0.0.0.0",
        "there is no such setting; always 127.0.0.1",
        (
            f"{_HTTP}/test_door.py::test_port_0_is_any_free_one_of_this_machine_only",
            f"{_HTTP}/test_door.py::test_another_address_or_an_impossible_port_is_a_mistake_in_the_configuration",
        ),
    ),
    Fault(
        "A06",
        "paths that climb, NUL, file://, UNC, doubly encoded",
        "404, 400 or 422, nothing repeated; routes by path only on the socket",
        (
            f"{_HTTP}/test_mistakes.py::test_no_refusal_repeats_what_was_asked_for",
            f"{_HTTP}/test_mistakes.py::test_over_tcp_no_refusal_repeats_a_path",
            f"{_HTTP}/test_uploads.py::test_what_cannot_be_taken_is_refused_and_nothing_stays",
            f"{_HTTP}/test_guard.py::test_routes_of_this_machines_paths_are_not_there_over_tcp",
            "interfaces/test_http_refusals.py::test_a_path_of_any_bytes_is_answered",
        ),
    ),
    Fault(
        "A07",
        "10 GB body, slow loris, a crowd of sockets, 10 MB query, FTS syntax, k = 10^9",
        "413, 408, closed, 400; never 500",
        (
            f"{_HTTP}/test_uploads.py::test_a_body_larger_than_any_file_is_refused_before_it_is_sent",
            f"{_HTTP}/test_body_limit.py::test_a_body_is_as_long_as_its_place_allows",
            f"{_HTTP}/test_body_limit.py::test_what_does_not_come_in_time_is_answered_408_whatever_the_app_makes_of_it",
            f"{_HTTP}/test_server.py::test_a_connection_without_a_whole_request_is_closed",
            f"{_HTTP}/test_server.py::test_of_a_crowd_that_says_nothing_only_so_many_stay",
            f"{_HTTP}/test_server.py::test_a_crowd_at_the_port_keeps_nobody_from_the_socket",
            f"{_HTTP}/test_server.py::test_a_long_address_is_never_answered",
            "interfaces/test_http_refusals.py::test_a_query_of_any_characters_is_answered",
            "interfaces/test_http_refusals.py::test_a_request_that_is_wrong_is_refused",
        ),
    ),
    Fault(
        "A08",
        "a search that never ends",
        "ended at its deadline with 503; the connection goes on",
        (
            f"{_HTTP}/test_mistakes.py::test_a_search_that_takes_too_long_is_ended_with_503",
            "store/test_writer.py::test_a_statement_that_takes_too_long_is_ended_and_the_connection_goes_on",
        ),
    ),
    Fault(
        "A09",
        "keys and secrets in a folder, added, uploaded",
        "never read",
        (
            "sources/test_ignore.py::test_a_files_name_decides",
            "sources/test_ignore.py::test_secrets_cannot_be_taken_back_in",
            "knowledge_base/test_adding.py::test_a_secret_is_refused_whatever_type_is_set_by_hand",
            "knowledge_base/test_adding.py::test_a_link_and_a_pipe_are_refused",
            f"{_HTTP}/test_uploads.py::test_what_cannot_be_taken_is_refused_and_nothing_stays",
        ),
    ),
    Fault("A10", "a secret inside an ordinary note", "documented", (), "nothing warns of it"),
    Fault("A11", "a removed secret in the raw files", "gone after `purge`", (), "`purge` is not built yet"),
    Fault(
        "A12",
        "ANSI escapes and HTML in text",
        "the terminal is not steered; JSON only, nosniff",
        (
            "interfaces/test_output.py::test_only_harmless_characters_are_printed",
            "interfaces/test_output.py::test_json_keeps_its_content_and_steers_no_terminal",
            f"{_HTTP}/test_guard.py::test_every_combination_is_answered_as_three_lines_say",
        ),
    ),
    Fault(
        "A13",
        "file names that forge log lines; text in answers about mistakes",
        "escaped; the words of a surprise stay in the log",
        (
            "test_log.py::test_a_failure_is_one_escaped_line",
            "test_log.py::test_a_record_is_one_json_line_with_its_fields",
            f"{_HTTP}/test_mistakes.py::test_a_surprise_is_raised_for_the_log_and_told_without_its_words",
        ),
    ),
    Fault(
        "A14",
        "a folder swapped for a link while it is read",
        "nothing outside is read",
        (
            "test_filesystem.py::test_nothing_outside_is_read_while_a_parent_is_swapped_for_a_link",
            "sources/test_scanner.py::test_a_folder_swapped_for_a_link_during_the_walk_is_not_followed",
            "contracts/test_filesystem.py::test_a_linked_parent_is_refused",
        ),
    ),
    Fault(
        "A15",
        "a model with pickled weights or code of its own",
        "safetensors only, no remote code",
        ("embed/test_model_files.py::test_a_folder_that_holds_no_whole_model_is_told",),
    ),
    Fault(
        "A16",
        "children with the parent's secrets and descriptors",
        "they have none",
        ("pipelines/test_isolation.py::test_a_child_has_no_descriptor_secret_or_network_of_its_parent",),
    ),
    Fault(
        "A17",
        "extension loading left on",
        "off after opening",
        ("store/test_connection.py::test_no_extension_can_be_loaded_after_opening",),
    ),
    Fault(
        "A18",
        "a database of somebody else's making",
        "no trusted schema; another program's is refused",
        (
            "store/test_connection.py::test_the_writer_is_durable_and_trusts_no_schema",
            "store/test_migrations.py::test_a_database_of_another_program_is_refused_untouched",
        ),
    ),
    Fault(
        "A19",
        "another user of the machine",
        "folders 0700; socket, token, lock, database 0600",
        (
            "config/test_locations.py::test_every_folder_is_private_whatever_the_umask",
            "store/test_connection.py::test_the_database_and_its_companions_are_private_whatever_the_umask",
            "daemon/test_lock.py::test_the_lock_is_private_and_never_a_link",
            "interfaces/test_http_refusals.py::test_only_the_owner_reaches_the_socket",
            f"{_HTTP}/test_token.py::test_it_is_made_once_for_its_owner_only_whatever_the_umask",
        ),
    ),
    Fault("A20", "kill -9 of `kbsync rebuild`", "the daemon's state is unaffected", (), "there is no such command yet"),
)


def main() -> None:
    """Print the table."""
    for fault in FAULTS:
        sys.stdout.write(f"{fault.id}  {fault.setup}\n     -> {fault.holds}\n")
        for test in fault.tests:
            sys.stdout.write(f"     tests/{test}\n")
        if fault.remark:
            sys.stdout.write(f"     {'' if fault.tests else 'NOT TESTED: '}{fault.remark}\n")
    tested = sum(bool(fault.tests) for fault in FAULTS)
    sys.stdout.write(f"{tested} of {len(FAULTS)} faults have tests.\n")


if __name__ == "__main__":
    main()
