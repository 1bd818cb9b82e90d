"""Every attempt of the threat model, and the tests that make it; `table.py` prints how they end."""

import fnmatch
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
REFUSED, REDUCED, MEASURED = "refused", "as the site's policy says", "measured"

_PORTS = "tests/attacks/test_ports.py"
_BROKEN = "tests/attacks/test_malformed.py"
_ASKED = "tests/attacks/test_submitters.py"
_OTHERS = "tests/attacks/test_faults_of_others.py"
_TLS = "tests/deploy/test_attacks.py"
_STALL = "tests/deploy/test_stalling.py"
_GUARD = "tests/federation/test_guard.py"
_OUT = "tests/federation/test_ways_out.py"
_FEDSC = "tests/protocols/fedsc"
_MIXTURE = "tests/protocols/federated_mixture/test_federated_mixture.py"
_GATE = "tests/federation/test_gate.py"
_KEPT = "tests/federation/test_kept.py"
_RULES = "tests/federation/test_site_rules.py"
_SUMS = "tests/secure/sums/test_protocol.py"
_SHARED = "tests/secure/sums/test_shared.py"
_TOLD = "tests/attacks/test_announced.py"
_GROUPS = "tests/attacks/test_groups.py"
_OVER = "tests/attacks/test_over_runs.py"
_STEPS = "tests/federation/test_approved_steps.py"
_NAMES = "tests/attacks/test_names.py"
_MIXED = "tests/attacks/test_mixed_steps.py"
_FEW = "tests/secure/prepare/test_few.py"
_SHARES = "tests/protocols/omnifc/test_on_shares.py"
_OF_SHARES = "tests/secure/three_parties/test_steps.py"
_ROWS = "tests/secure/distances/test_steps.py"
_REFUSED = "tests/secure/distances/test_refused.py"
_MASKS = "tests/secure/sums/test_site_rules.py"


@dataclass(frozen=True)
class Attempt:
    """One way past a promise.

    Parameters
    ----------
    row : str
        Its number in docs/security.md; "-" for what held from the beginning.
    what : str
        What is tried.
    position : str
        By whom: a, careless author; b, curious submitter; c, curious scheduler; d, curious party;
        e, stranger at a port; s, the server of a run; l, another user of the machine.
    before : str
        How it ended on commit dfcb4f9.
    now : str
        What its tests hold.
    tests : tuple of str
        Ids as pytest has them, without parameters; ``*`` stands for anything within a name.
    """

    row: str
    what: str
    position: str
    before: str
    now: str
    tests: tuple[str, ...]


ATTEMPTS = (
    Attempt("1", "pickle in the argument of a blocked operation, at worker and nanny", "e",
        "code ran in the party", REFUSED, (f"{_PORTS}::test_a_pickle_*", f"{_TLS}::test_1_*")),
    Attempt("1", "malformed frames, messages, envelopes and settings", "e",
        "not tried; 1.4 kB ended a worker", REFUSED, (_BROKEN,)),
    Attempt("2", "`get_data` with the name of another", "d, e",
        "messages of others handed out", REFUSED, (f"{_TLS}::test_2_*",)),
    Attempt("2", "connection without a certificate", "e",
        "shares read and rows rebuilt", REFUSED, (f"{_TLS}::test_no_certificate_no_connection",)),
    Attempt("3", "a party's certificate used as a submitter", "d",
        "raw rows of another client", REFUSED, (f"{_TLS}::test_3_*",)),
    Attempt("4", "any function at a party, past the steps", "b",
        "code ran beside the data", REFUSED,
        (f"{_TLS}::test_4_*", f"{_GUARD}::test_a_task_that_no_verb_made_is_not_run")),
    Attempt("5", "installed steps that the submitter composes", "b",
        "raw data as \"plain\"", REDUCED, (_STEPS,)),
    Attempt("6", "raw data where the submitter allows it", "b",
        "a site could not refuse", REDUCED, (f"{_ASKED}::test_raw_rows_*", f"{_TLS}::test_6_*")),
    Attempt("6", "`predict` on any store that the site can read", "b",
        "opened", REDUCED, (f"{_ASKED}::test_predict_*",)),
    Attempt("6", "`predict` on columns that the site's policy leaves out", "b",
        "the column, by labels", REFUSED, (
         "tests/federation/test_party.py::test_new_samples_have_the_columns_*",)),
    Attempt("6", "fits one after the other, each with its own budget", "b",
        "no refusal", REDUCED, (f"{_ASKED}::test_fits_*", "tests/site/test_power_cut.py")),
    Attempt("6", "masked sums of few clients", "b",
        "a site could not refuse", REDUCED,
        (f"{_ASKED}::test_keys_are_agreed_on_*",
         f"{_MASKS}::test_keys_are_agreed_on_with_enough_clients")),
    Attempt("6", "methods, hours, columns, submitters that a site does not take", "b",
        "a site could not refuse", REDUCED, (_GATE,)),
    Attempt("6", "what other keys of a policy forbid: ids, labels, words, uploads", "b",
        "not tried", REDUCED, (f"{_RULES}::test_a_refusal_*",
         "tests/site/test_policy.py::test_one_rule_says_no",)),
    Attempt("6", "distances of kCAGC to centres or of single samples, where a site wants none",
        "b, s", "not tried", REDUCED, ("tests/attacks/test_distances_told.py",)),
    Attempt("7", "a worker that offers the resource `server`", "d",
        "took the server's steps", REFUSED, (f"{_ASKED}::test_a_worker_*", f"{_TLS}::test_7_*")),
    Attempt("8", "a run named `../../..`", "e",
        "left its folder", REFUSED, (f"{_OUT}::test_a_run_leads_no_party_out_of_its_folder",)),
    Attempt("8", "names of stores and pools that lead out of a step's folder", "b",
        "stores removed, rows written anywhere", REFUSED, (_NAMES,)),
    Attempt("8", "`kill` and its like at a nanny or worker", "e",
        "ended a run", REFUSED, (f"{_TLS}::test_8_*",)),
    Attempt("9", "metadata of a dtype", "a", "rows crossed uncounted", REFUSED,
        (f"{_GUARD}::test_an_array_arrives_without_what_its_dtype_carries",)),
    Attempt("9", "a base class's slots, attributes, a class's own pickling", "a",
        "rows crossed uncounted", REFUSED,
        (f"{_GUARD}::test_what_no_ledger_would_show_is_refused",
         f"{_GUARD}::test_what_is_not_declared_does_not_leave",
         f"{_GUARD}::test_a_class_does_not_decide_how_it_is_sent")),
    Attempt("9", "names of a structured array's fields", "a", "text crossed uncounted", REFUSED,
        ("tests/federation/test_messages.py::test_only_plain_arrays_pass",
         "tests/federation/test_messages.py::test_only_arrays_of_plain_entries_can_be_declared")),
    Attempt("10", "text, class and attributes of an error", "a", "values crossed", REFUSED,
        (f"{_OUT}::test_the_text_of_an_exception_stays_at_its_party",
         f"{_OUT}::test_what_daskfcs_own_errors_come_from_stays_too",
         f"{_OUT}::test_neither_class_nor_attributes_of_an_exception_cross",
         f"{_OUT}::test_a_task_that_is_no_step_gives_no_text_either")),
    Attempt("10", "`get_client`, `worker_client`, `Variable`, `Queue`, `Event`, the stream", "a",
        "values crossed", REFUSED,
        (f"{_OUT}::test_steps_find_no_client_of_the_scheduler",
         f"{_GUARD}::test_steps_tell_the_scheduler_nothing")),
    Attempt("10", "type name and size of a kept result", "a", "values crossed", REFUSED,
        (f"{_GUARD}::test_the_scheduler_learns_neither_type_nor_size_of_what_is_kept",)),
    Attempt("11", "replay of a start", "b, c", "the same secrets again", REFUSED,
        (f"{_TLS}::test_11_*", f"{_GATE}::test_a_start_is_*")),
    Attempt("11", "two arrays under the masks of one tag", "b", "their difference", REFUSED,
        (f"{_ASKED}::test_masks_are_used_once",
         f"{_MASKS}::test_keys_that_are_agreed_on_again_mask_no_second_array")),
    Attempt("11", "a vault opened twice", "b", "a client unmasked", REFUSED,
        (f"{_MASKS}::test_a_second_vault_reveals_no_more_than_the_first",)),
    Attempt("11", "a vault sealed with threshold 1", "b", "accepted", REDUCED,
        (f"{_MASKS}::test_a_vault_is_sealed_for_enough_clients",)),
    Attempt("11", "masks of an aggregator, opened for two sets of clients", "b, s",
        "a client's array", REFUSED,
        (f"{_SHARED}::test_an_aggregator_opens_one_set_of_clients_a_sum",
         f"{_SHARED}::test_a_restarted_aggregator_opens_no_other_set")),
    Attempt("11", "equal noise under another sigma", "b", "rows to 2.6e-8", REFUSED,
        (f"{_FEDSC}/test_noise.py::test_a_repeated_start_cannot_subtract_noise",
         "tests/site/test_state.py::test_a_label_with_other_noise_is_refused")),
    Attempt("11", "equal noise in other shares, on other features or radii", "b",
        "sums to 3e-8", REFUSED, (
         "tests/protocols/fk_kmeans/test_noise.py::test_another_release_*",
         "tests/protocols/fk_kmeans/test_party.py::test_what_is_made_of_*",
         "tests/secure/prepare/test_noisy.py::test_sums_are_of_*",
         "tests/secure/kmeans/test_private.py::test_a_repeated_step_*")),
    Attempt("12", "ids and rows behind digests, by guesses", "s", "all found", MEASURED,
        ("tests/privacy/test_attacks.py::test_ids_behind_digests_*",
         "tests/privacy/test_attacks.py::test_rows_behind_a_digest_*")),
    Attempt("12", "who holds which id, by the order of samples", "d", "all found", MEASURED,
        ("tests/privacy/test_attacks.py::test_an_order_tells_evaluators_nothing_of_holders",
         "tests/privacy/test_attacks.py::"
         "test_an_evaluators_own_share_does_not_give_it_the_order")),
    Attempt("13", "sums over changing subsets of clients", "s",
        "dictionaries of 2 of 5 clients", MEASURED,
        (f"{_FEDSC}/test_repeated_releases.py::test_changing_subsets_*",
         f"{_FEDSC}/test_repeated_releases.py::test_some_clients_in_a_round_*")),
    Attempt("14", "predictions, as the same rows under fresh noise", "b",
        "noise averaged away, uncounted", MEASURED,
        (f"{_FEDSC}/test_repeated_releases.py::test_releases_of_the_same_samples_*",
         f"{_FEDSC}/test_repeated_releases.py::test_averages_measured",
         f"{_FEDSC}/test_repeated_releases.py::test_noise_that_guarantees_something_*")),
    Attempt("15", "logs, ledgers, stores and run folders of another user", "l",
        "readable", REFUSED,
        (f"{_OUT}::test_logs_and_folders_are_their_owners",
         "tests/stores/test_writer.py::test_a_store_is_its_owners",
         "tests/runs/test_folder.py::test_a_run_is_its_owners_until_the_owner_opens_its_folder",
         "tests/site/test_state.py::test_nobody_else_can_read_it",
         "tests/deploy/test_authority.py::test_nobody_else_can_read_a_key")),
    Attempt("15", "a lone surrogate in a message's text", "a", "the driver hung", REFUSED,
        (f"{_GUARD}::test_what_no_ledger_would_show_is_refused",)),
    Attempt("16", "a ring of its own for each client of a masked sum", "b",
        "one site's sums, exactly", REFUSED, (f"{_TOLD}::test_a_ring_of_its_own_*",)),
    Attempt("16", "sums that the server decodes otherwise than clients encoded them", "b",
        "one sample counted as eight", REFUSED, (f"{_TOLD}::test_a_sum_is_decoded_*",
         f"{_SUMS}::test_missing_replayed_*")),
    Attempt("16", "sums of a mixture after masses of others, or after others than were opened", "b",
        "changes of single samples", REFUSED, (f"{_MIXTURE}::test_what_was_summed_before_*",
         f"{_MIXTURE}::test_no_second_fit_*")),
    Attempt("16", "what a submitter gives the server's steps, of other types than these declare",
        "b", "not looked at", REFUSED,
        ("tests/federation/test_step_rules.py::test_at_the_server_*",
         "tests/federation/test_step_rules.py::test_every_argument_that_a_party_*")),
    Attempt("16", "a server that tells clients different states", "s",
        "one site's sums", REFUSED, (f"{_TOLD}::test_a_server_that_tells_*",)),
    Attempt("17", "masks of one tag over several sets of neighbours", "b",
        "a client unmasked", REFUSED, (f"{_TOLD}::test_masks_of_a_tag_*",
         f"{_TOLD}::test_keys_of_chosen_*",)),
    Attempt("17", "keys of one sum dealt to several sets of holders", "b",
        "both keys of a client", REFUSED, (f"{_SUMS}::test_no_two_sets_of_holders_*",
         f"{_SUMS}::test_keys_are_dealt_once",)),
    Attempt("17", "a vault opened with the shares of nobody else", "b",
        "one site's sums, exactly", REFUSED, (f"{_MASKS}::test_a_vault_opens_*", _STEPS)),
    Attempt("17", "rows shared out by a weaker code, or to one evaluator twice", "b",
        "rows, with one site", REFUSED, (_STEPS,
         "tests/secure/distances/test_steps.py::test_evaluators_in_another_order_*",)),
    Attempt("17", "one hiding polynomial for several landmarks, panels, grids or codes", "b",
        "distances in parts of the columns", REFUSED, (
         "tests/secure/distances/test_own_noise.py::test_each_answer_*",)),
    Attempt("17", "rows in more segments than were announced, or unhidden ones", "b",
        "distances over one site's column", REFUSED, (
         "tests/secure/distances/test_refused.py::test_rows_have_as_many_segments_*",
         "tests/secure/distances/test_refused.py::test_segments_are_hidden_*",)),
    Attempt("17", "other clients announced than those of a sum", "b",
        "one site's mean, exactly", REFUSED, (f"{_GATE}::test_a_client_takes_no_part_*",
         f"{_MASKS}::test_vaults_are_of_clients_*",)),
    Attempt("18", "less noise than was announced, or in more shares", "b",
        "uncounted, nearly none", REFUSED, (_STEPS,
         "tests/federation/test_step_rules.py::test_what_is_not_as_announced_is_told",
         f"{_MASKS}::test_a_share_of_noise_goes_where_all_shares_go")),
    Attempt("18", "more releases than were announced", "b",
        "uncounted without a budget", REFUSED, (f"{_RULES}::test_a_run_releases_*",)),
    Attempt("18", "noise on rows that a site prepares by its own samples", "b",
        "an epsilon of 1 was 25", REFUSED, (f"{_GATE}::test_no_noise_on_rows_*",)),
    Attempt("18", "a share of noise among clients that nobody has", "b",
        "a hundredth of the noise", REFUSED, (f"{_MASKS}::test_a_vault_opens_for_no_more_*",)),
    Attempt("18", "fresh noise on FedSC's rows that no message counts", "b",
        "31 releases for the price of one", REFUSED,
        (f"{_ASKED}::test_noise_that_no_message_*", f"{_RULES}::test_noise_that_is_counted_*")),
    Attempt("18", "what noise does not protect, beside what it does", "b",
        "told", REFUSED, (f"{_ASKED}::test_what_noise_does_not_*",
         "tests/site/test_approved.py::test_what_noise_does_not_*")),
    Attempt("18", "new samples of several clients, after a fit of ESFMC with noise", "b",
        "assignments without noise", REFUSED,
        ("tests/attacks/test_distances_told.py::test_new_samples_of_several_*",
         "tests/site/test_approved.py::test_assignments_of_new_*")),
    Attempt("19", "messages of another sender, receiver or run", "c, d",
        "taken", REFUSED, (f"{_KEPT}::test_other_messages_*",
         f"{_KEPT}::test_messages_come_*",)),
    Attempt("19", "a public key that its owner did not sign", "c, d",
        "taken", REFUSED, (f"{_KEPT}::test_public_keys_are_signed_*",)),
    Attempt("20", "rows by profiles of chosen groups, where noise is required", "b",
        "all rows", REDUCED, ("tests/site/test_policy.py::test_one_rule_says_no",
         _GATE,)),
    Attempt("20", "groups of one sample, of pairs, of one client; words of one sample", "b",
        "all rows", REFUSED, (f"{_GROUPS}::test_sums_of_pairs_*", f"{_GROUPS}::test_words_*",
         "tests/secure/profiles/test_profile.py::test_the_server_describes_no_*",
         "tests/secure/profiles/test_words_and_gaps.py::test_cells_of_few_values_*",
         "tests/secure/prepare/test_few.py")),
    Attempt("20", "profiles of two groupings that differ by a sample", "b",
        "the sample", REFUSED, (f"{_GROUPS}::test_a_second_grouping_*",)),
    Attempt("20", "sums of k-means over one client's rows", "s",
        "their mean", REFUSED,
        ("tests/secure/kmeans/test_on_sums.py::test_no_sum_is_of_one_client_alone",
         "tests/secure/kmeans/test_on_sums.py::test_a_cluster_of_one_client_*")),
    Attempt("21", "`add-keys` and `task-finished` for the message of another", "d",
        "a public key swapped; the run stood still", REFUSED,
        (f"{_STALL}::test_nobody_says_that_it_has_*",)),
    Attempt("21", "`task-erred`, `long-running`, `reschedule` for the step of another", "d",
        "a step of another failed", REFUSED, (f"{_STALL}::test_nobody_ends_the_step_*",)),
    Attempt("21", "a peer that answers with errors, with nothing, or hangs up", "d",
        "asked for ever", REFUSED,
        (f"{_STALL}::test_a_peer_that_gives_no_message_*", "tests/federation/test_asking.py")),
    Attempt("21", "asking for messages and taking none", "b, d",
        "busy for everybody, for ever", REFUSED,
        (f"{_STALL}::test_who_asks_and_takes_nothing_*",)),
    Attempt("21", "`restart_workers`, `unregister`, `cancel-keys` in the run of another", "b",
        "ended the run", REFUSED,
        (f"{_STALL}::test_parties_of_a_run_*", f"{_STALL}::test_bob_cancels_*")),
    Attempt("21", "a driver that stays connected, or says that it is another", "b",
        "held parties for ever", REDUCED,
        (f"{_STALL}::test_a_driver_that_stays_*", f"{_STALL}::test_bob_hears_*",
         "tests/federation/test_nanny.py::test_another_submitter_is_not_*",
         "tests/federation/test_gate.py::test_only_what_is_counted_begins_*")),
    Attempt("21", "silent connections, half handshakes, 100,000 of them", "e",
        "nobody else could connect", REFUSED,
        (f"{_STALL}::test_connections_that_ask_nothing_*", f"{_STALL}::test_one_address_has_*",
         f"{_STALL}::test_100_000_*", f"{_STALL}::test_servers_may_open_*")),
    Attempt("21", "a message that begins and does not end, or that announces a petabyte", "b, d",
        "waited for, for ever; memory taken first", REFUSED,
        (f"{_STALL}::test_a_message_that_has_begun_*", "tests/deploy/test_pace.py")),
    Attempt("21", "hundreds of connections of one certificate that did ask something", "b, d",
        "descriptors until there were none", REFUSED,
        (f"{_STALL}::test_one_certificate_has_*",)),
    Attempt("22", "refusals in the run of another, by their topic", "b, d",
        "sentence and run id to every submitter", REFUSED,
        (f"{_STALL}::test_bob_hears_nothing_*",)),
    Attempt("22", "what is there, by the words of a refusal: runs, ledgers, messages", "b, c",
        "told apart; ledgers of others read", REFUSED,
        (f"{_STALL}::test_the_ledger_of_a_run_*", f"{_STALL}::test_a_message_that_is_not_for_*",
         f"{_TLS}::test_3_a_run_is_ended_by_*")),
    Attempt("23", "a label of pseudonyms used again, on data that changed or by another", "b",
        "persons followed over runs", REFUSED, (f"{_OVER}::test_nobody_is_followed_*",
         f"{_RULES}::test_a_label_of_pseudonyms_*")),
    Attempt("23", "pseudonyms of another run taken for a run's own, or one key under two labels",
        "b", "taken", REFUSED, (f"{_OVER}::test_a_run_wraps_*",)),
    Attempt("23", "masked sums with and without one client", "b",
        "that client's array", REDUCED, (f"{_OVER}::test_sums_with_and_without_*",
         f"{_OVER}::test_sums_that_survive_*", f"{_RULES}::test_sums_of_one_data_set_*",
         f"{_RULES}::test_clients_that_may_leave_*")),
    Attempt("24", "labels on shares for another radius, or other centres, than announced", "b",
        "distances, one after the other", REFUSED,
        (f"{_ASKED}::test_who_announced_one_radius_*", f"{_SHARES}::test_members_begin_*",
         f"{_OF_SHARES}::test_a_program_begins_once", f"{_OF_SHARES}::test_a_site_performs_*")),
    Attempt("24", "rows seen from chosen points, in many ranges, on coarse grids", "b",
        "where samples lie", REFUSED,
        (f"{_SHARES}::test_a_start_has_one_grid", f"{_SHARES}::test_a_caller_chooses_no_point_*",
         f"{_ROWS}::test_a_caller_chooses_no_point_*", f"{_ROWS}::test_few_grids_*",
         f"{_REFUSED}::test_a_caller_asks_for_*", f"{_REFUSED}::test_far_samples_are_asked_*",
         f"{_ROWS}::test_a_grid_that_some_rows_do_not_fit_*")),
    Attempt("24", "another scale or centre told to one of those that share", "s",
        "its samples moved, unseen", REFUSED,
        (f"{_OF_SHARES}::test_clients_that_were_told_different_*",)),
    Attempt("24", "a task of fewer bits than rows have, or than memory holds", "b",
        "labels by the lowest bits of samples; a member that is ended", REFUSED,
        (f"{_OF_SHARES}::test_a_task_for_other_samples_*",
         f"{_OF_SHARES}::test_a_member_refuses_what_its_memory_*")),
    Attempt("24", "one of the three that looks at all that it is sent, and at the opened order",
        "d", "uniform words", MEASURED,
        ("tests/secure/shared/test_views.py::test_what_a_party_sees_*",
         "tests/secure/shared/test_ordering.py::test_the_opened_order_*",
         "tests/secure/shared/test_ordering.py::test_what_a_party_sees_*")),
    Attempt("24", "one of the three that repeats a round, or sends other words or sizes", "d",
        "the run ended", REFUSED,
        (f"{_OF_SHARES}::test_a_round_is_not_*", f"{_OF_SHARES}::test_messages_of_another_*")),
    Attempt("24", "masks of all held by other aggregators than were announced", "b",
        "every array, with two friends", REFUSED,
        (f"{_SHARED}::test_aggregators_are_those_that_were_*",)),
    Attempt("24", "bounds of sums and shifts of columns as questions, answered by what fails", "b",
        "a site's sums, words and single rows", REFUSED, (
         f"{_ASKED}::test_a_bound_is_no_*", f"{_RULES}::test_steps_of_a_start_*",
         f"{_RULES}::test_a_start_prepares_*",
         "tests/secure/sums/test_bounds_and_kinds.py::test_a_bound_tells_*",
         "tests/secure/prepare/test_words_of_sites.py::test_words_of_one_client_*")),
    Attempt("24", "more clusters than were announced; local clusters of a sample or two", "b",
        "rows as centres", REFUSED, (f"{_ASKED}::test_who_announced_few_*",
         "tests/federation/test_step_rules.py::test_what_is_not_as_announced_*",
         "tests/baselines/test_k_fed.py::test_between_sites_*",
         "tests/baselines/test_mufc.py::test_between_sites_*",
         "tests/baselines/test_ffcm.py::test_between_sites_*")),
    Attempt("25", "messages of the server or of sites that the submitter made himself",
        "b", "how many samples have which value; groups of one", REFUSED,
        (f"{_MIXED}::test_what_a_party_sends_*",)),
    Attempt("25",
        "sums of k-means over rows near other centres, or of other clients, than were counted",
        "b", "single rows, as centres", REFUSED,
        (f"{_MIXED}::test_rows_near_other_*", f"{_MIXED}::test_a_start_sums_over_*",)),
    Attempt("25", "two k-means in a start, or sums after the last",
        "b", "not counted", REFUSED,
        (f"{_MIXED}::test_a_start_has_one_k_means_*",)),
    Attempt("25",
        "labels of more clusters, by other clusterers, or again and again, than announced",
        "b", "who is near whom", REFUSED,
        (f"{_MIXED}::test_a_start_labels_once_*",)),
    Attempt("25", "a cluster for each point of a coreset; many coresets",
        "b", "coordinates of samples", REFUSED,
        (f"{_MIXED}::test_the_server_clusters_*",)),
    Attempt("25", "steps that belong to another value of a parameter than was announced",
        "b, s", "rows, where a site took coded similarities alone", REFUSED,
        ("tests/site/test_approved.py::test_what_a_limit_*",)),
    Attempt("25", "words of the submitter's own, or spelt by other keys than they were counted by",
        "b", "sums over one sample", REFUSED,
        (f"{_MIXED}::test_sums_of_a_column_*",)),
    Attempt("25", "the sum of a column of one value, told by a step for other sums",
        "b", "the value", REFUSED,
        (f"{_MIXED}::test_sums_of_columns_*",)),
    Attempt("25", "ranges of one search for quantiles, with columns or counts of another",
        "b", "the largest value, to 1e-12", REFUSED,
        (f"{_FEW}::test_ranges_serve_the_*", f"{_FEW}::test_two_preparations_*",
         f"{_FEW}::test_counts_of_few_*")),
    Attempt("25", "the ledger of a run, by its id in a run of one's own",
        "b", "not tried", REFUSED,
        ("tests/site/test_state.py::test_a_start_is_used_once",)),
    Attempt("-", "gather of raw rows, by driver or peer", "b", REFUSED, REFUSED,
        (f"{_GUARD}::test_raw_data_*", f"{_GUARD}::test_a_message_for_another_party_is_refused")),
    Attempt("-", "`client.run`, logs, story, plug-ins, `upload_file`", "b", REFUSED, REFUSED,
        (f"{_OUT}::test_other_ways_out_are_shut",
         f"{_OUT}::test_plugins_of_the_scheduler_are_not_installed")),
    Attempt("-", "actors, `replicate`, `scatter`", "b", REFUSED, REFUSED,
        (f"{_OUT}::test_actors_do_not_answer",
         f"{_OUT}::test_copies_are_not_made_at_other_parties",
         f"{_GUARD}::test_nothing_can_be_put_into_a_party")),
    Attempt("-", "certificates of another authority", "e", REFUSED, REFUSED,
        ("tests/deploy/test_authority.py::test_a_party_of_another_authority_is_no_party",
         "tests/deploy/test_authority.py::test_a_party_cannot_sign_for_others")),
    Attempt("-", "more spent than the accountant says; noise of another law; clipping", "b",
        "held", MEASURED,
        ("tests/privacy/test_accounting.py::test_another_library_finds_the_same",
         "tests/privacy/test_gaussian.py::test_delta_is_the_integral_that_defines_it",
         "tests/privacy/test_gaussian.py::test_deviates_are_normal_and_independent",
         "tests/privacy/test_gaussian.py::test_clipped_rows_stay_within_the_bound_exactly")),
    Attempt("-", "structure in residues, masks and keys", "d, s", "held", MEASURED,
        ("tests/coding/test_lagrange.py::test_privacy_*",
         "tests/coding/test_hiding.py::test_hidden_segment_distances_are_uniform",
         "tests/coding/test_masks.py::test_a_masked_constant_looks_uniform",
         "tests/coding/test_derivation.py::test_the_key_that_two_parties_share")),
    Attempt("-", "small inputs that name large ones: pickles, headers, primes, YAML", "b, e",
        "7 bytes asked for 32 GiB", REFUSED,
        (f"{_BROKEN}::test_a_pickle_of_five_bytes_takes_no_memory",
         f"{_BROKEN}::test_a_number_in_place_of_a_pickle_takes_no_memory",
         f"{_BROKEN}::test_a_large_number_in_place_of_a_prime_takes_no_time",
         "tests/stores/test_chunk_sizes.py",
         "tests/fuzz/test_yaml.py::test_small_texts_do_not_take_long")),
    Attempt("-", "damaged and mixed calls, envelopes, pickles, stores, files, YAML", "b, d, e",
        "errors of libraries", REFUSED,
        ("tests/fuzz/test_wire.py",
         "tests/fuzz/test_stores.py",
         "tests/fuzz/test_yaml.py")),
    Attempt("-", "files of others that hold code, lead elsewhere or are links", "b, l",
        REFUSED, REFUSED,
        (f"{_OTHERS}::test_a_file_of_others_runs_no_code",
         f"{_OTHERS}::test_an_archive_leads_nowhere_else",
         f"{_OTHERS}::test_a_chunk_that_is_a_link_elsewhere_is_not_told",
         "tests/stores/test_planetoid.py::test_a_pickle_that_runs_code_is_refused")),
    Attempt("-", "a class or function by its name, imported before it is refused", "b, e",
        REFUSED, REFUSED,
        (f"{_OTHERS}::test_a_name_is_refused_before_it_is_imported",)),
    Attempt("-", "keys in logs, ledgers, stores' folders, and what `ps` shows", "l",
        "none there", REFUSED,
        (f"{_OTHERS}::test_no_key_is_in_a_file_or_on_a_command_line",
         f"{_TLS}::test_no_private_key_*")),
    Attempt("-", "ports of a local federation on other addresses", "e",
        "none there", REFUSED,
        (f"{_OTHERS}::test_a_local_federation_listens_on_the_loopback_alone",)),
    Attempt("-", "secrets from a seed; one mask in two starts", "b, s",
        "none there", REFUSED,
        (f"{_OTHERS}::test_secrets_are_drawn_from_no_seed",
         f"{_OTHERS}::test_no_mask_comes_twice_over_many_resumes")),
)  # fmt: skip


def found(test: str) -> list[str]:
    """Return the ids that a test's pattern stands for: a module, or functions of one."""
    module, _, name = test.partition("::")
    if not (ROOT / module).is_file():
        return []
    if not name:
        return [module]
    functions = re.findall(r"^def (test_\w+)", (ROOT / module).read_text("utf-8"), re.MULTILINE)
    return [f"{module}::{one}" for one in functions if fnmatch.fnmatch(one, name)]
