//! Every check by its name.

use super::{
    adjust, batches, behind, bounds, capacities, changes, counts, definition_changes,
    definition_events, definition_pages, definitions, entities, granted, keys, leases, listing,
    namespaces, opening, overrides, partial, pools, takes, untaken, usage, usage_histories,
    usage_leases, usage_records, vectors,
};
use crate::subject::{Skipped, Subject};

/// Panics if the store breaks the sentence that the check is named after.
pub type Check = fn(&Subject) -> Result<(), Skipped>;

macro_rules! table {
    ($($room:ident::$name:ident,)*) => {
        &[$((stringify!($name), $room::$name),)*]
    };
}

/// Every check by its name.
pub const CHECKS: &[(&str, Check)] = table![
    takes::all_or_nothing_across_limits_and_ancestors,
    takes::a_refusal_changes_nothing,
    takes::a_limit_beside_a_busy_one_refills_at_its_own_rate,
    takes::the_reported_instant_is_exact_across_limits_and_ancestors,
    takes::a_debit_is_charged_whether_it_fits_or_not,
    takes::a_clock_that_steps_back_admits_nothing_more,
    batches::a_batch_is_answered_in_its_order,
    batches::those_of_one_root_are_decided_one_after_the_other,
    batches::what_one_of_a_batch_is_refused_is_no_concern_of_the_others,
    batches::a_batch_is_decided_at_one_instant,
    batches::a_batch_of_many_rows_with_logs_is_decided,
    batches::nothing_drains_between_those_of_a_batch,
    batches::a_batch_made_for_older_limits_is_told_so_and_charges_nothing,
    leases::a_lease_is_settled_once_and_a_retry_gets_the_first_answer,
    leases::slots_come_back_at_expiry_and_not_before,
    leases::a_lease_that_expired_is_charged_its_real_use,
    leases::a_renewed_lease_is_held_to_its_new_expiry,
    leases::a_fence_grows_across_release_expiry_and_reset,
    leases::the_same_idempotency_key_gives_the_same_lease,
    leases::a_retry_after_the_end_of_its_lease_takes_anew,
    leases::a_lease_is_nobody_elses_to_end,
    leases::a_reset_leaves_alone_what_only_looks_like_a_descendant,
    leases::a_step_back_is_noted_where_an_id_is_refused,
    granted::a_lease_says_when_it_was_granted,
    granted::a_renewal_and_an_adjustment_leave_when_a_lease_was_granted,
    granted::a_retry_is_told_when_its_lease_was_granted,
    granted::a_restart_leaves_when_a_lease_was_granted,
    partial::a_take_that_may_be_partial_gets_of_each_limit_what_is_there,
    partial::a_take_of_less_than_the_least_takes_nothing_and_says_when_it_is_there,
    partial::what_was_taken_partly_is_good_until_the_window_ends_or_the_lease,
    partial::what_was_taken_partly_and_not_used_comes_back_where_it_was_charged,
    untaken::a_lease_whose_answer_nobody_takes_is_given_back,
    untaken::what_is_charged_without_a_lease_stays_charged_whoever_takes_the_answer,
    untaken::a_lease_of_an_idempotency_key_stays_for_the_retry,
    untaken::an_end_whose_answer_nobody_takes_is_an_end,
    untaken::an_adjustment_whose_answer_nobody_takes_is_made_whole_or_not_and_once_by_a_retry,
    adjust::a_lease_is_adjusted_all_or_nothing,
    adjust::an_adjustment_that_is_repeated_changes_nothing,
    adjust::a_lease_is_adjusted_into_debt_where_that_is_said,
    adjust::a_shadow_that_let_a_lease_in_counts_whatever_it_is_adjusted_to,
    adjust::a_shadow_of_which_a_lease_has_nothing_stays_so_when_it_is_adjusted,
    adjust::a_shadow_that_is_none_any_more_is_charged_once,
    adjust::less_is_given_back_where_it_was_charged,
    adjust::a_lease_is_adjusted_any_number_of_times,
    adjust::a_lease_that_is_not_held_is_not_adjusted,
    adjust::an_adjusted_leases_slots_come_back_on_a_clock_that_stepped_back,
    adjust::a_lease_is_adjusted_whatever_is_due_before_it,
    adjust::less_slots_are_held_whatever_the_capacity_has_become,
    adjust::an_overdraft_that_is_taken_back_leaves_what_others_used,
    adjust::a_refused_adjustment_leaves_what_has_expired_as_it_was,
    capacities::a_capacity_that_changes_ten_times_a_second_forgets_nothing,
    capacities::a_capacity_is_lowered_and_raised_between_two_commands,
    capacities::two_callers_with_capacities_of_their_own_count_the_same_usage,
    capacities::a_key_with_limits_of_its_own_has_no_other_capacity,
    keys::keys_of_any_bytes_do_not_collide,
    entities::a_path_of_entities_charges_every_ancestor_or_none,
    entities::an_entity_that_moves_within_its_root_keeps_what_it_has_used,
    entities::only_the_roots_row_is_shared_with_composed_keys,
    entities::keys_of_one_level_are_no_paths_of_entities,
    entities::a_lease_of_an_entity_is_settled_where_it_was_granted,
    entities::a_lease_of_an_entity_gives_back_at_its_expiry_where_it_was_granted,
    entities::a_reset_of_an_entity_is_of_it_alone_wherever_it_was,
    entities::an_entitys_own_limits_hold_wherever_it_is,
    entities::entities_are_listed_by_the_names_of_their_rows,
    entities::what_an_entity_has_used_survives_a_restart,
    listing::a_key_in_use_is_listed_once_whatever_comes_meanwhile,
    listing::keys_are_listed_by_their_beginning_and_ancestors_with_them,
    listing::a_key_that_equals_never_seen_is_not_listed,
    listing::a_held_lease_is_listed_with_what_it_took,
    listing::leases_that_expire_together_are_listed_once_each,
    listing::a_page_that_another_table_began_is_an_error,
    listing::a_cursor_that_was_tampered_with_is_the_callers_error,
    listing::leases_are_listed_whatever_bytes_the_keys_have,
    counts::a_table_counts_its_keys_and_the_ancestors_that_have_state,
    counts::a_table_of_one_bucket_counts_its_keys,
    counts::leases_are_counted_while_they_are_held_and_then_remembered,
    bounds::a_bounded_store_answers_as_an_unbounded_one_or_says_that_it_is_full,
    bounds::a_store_that_is_full_halfway_up_a_hierarchy_changes_nothing,
    bounds::no_more_leases_are_held_than_there_is_room_for,
    changes::raising_a_limit_delays_no_one,
    changes::a_limit_counts_from_when_it_was_added_to_when_it_was_removed,
    changes::a_command_made_for_older_limits_is_told_so,
    changes::two_versions_asked_in_turn_admit_no_more_than_the_larger_alone,
    changes::a_limit_that_is_added_is_one_limit_to_sets_of_different_age,
    changes::what_expired_before_a_change_comes_back_by_the_limits_of_then,
    behind::a_limit_that_one_server_does_not_know_is_counted_through_it,
    behind::a_key_keeps_its_own_limit_through_a_server_that_does_not_know_it,
    behind::a_server_two_versions_behind_makes_no_limit_begin_anew,
    behind::a_limit_that_all_have_let_go_counts_from_when_it_is_added_again,
    behind::a_clock_before_a_change_makes_no_limit_begin_anew,
    behind::a_lease_is_ended_and_renewed_by_a_server_that_does_not_know_its_limit,
    behind::a_reset_forgets_what_the_server_that_is_asked_does_not_know,
    behind::what_expired_comes_back_by_its_keys_own_limit_whoever_finds_it,
    behind::a_change_that_is_passed_over_forgets_nothing_of_a_keys_own_row,
    overrides::a_limit_of_its_own_holds_for_its_key_and_no_other,
    overrides::raising_a_keys_own_limit_delays_no_one,
    overrides::a_lowered_limit_of_a_key_keeps_what_was_used,
    overrides::ancestors_have_limits_of_their_own,
    overrides::a_limit_of_its_own_outlives_the_rows_of_its_key,
    overrides::what_was_used_by_limits_of_its_own_survives_a_restart,
    overrides::a_limit_of_its_own_that_was_removed_counts_from_when_it_is_added_again,
    definitions::a_definition_is_kept_for_its_owner_until_it_is_removed,
    definitions::definitions_survive_a_restart,
    definitions::every_change_of_a_definition_has_a_newer_version,
    definitions::who_knows_a_version_that_was_never_made_is_given_every_definition,
    definitions::who_is_far_behind_is_given_every_definition,
    definitions::who_follows_knows_a_definition_before_it_is_answered,
    definitions::what_is_defined_at_one_handle_holds_at_another,
    definitions::a_definition_lasts_for_as_long_as_it_says,
    definition_changes::a_definition_is_read_by_itself_with_the_version_of_its_last_change,
    definition_changes::a_definition_is_read_with_its_ancestors,
    definition_changes::a_definition_and_its_ancestors_are_read_as_of_one_instant,
    definition_changes::a_definition_is_changed_if_it_has_the_version_that_is_expected,
    definition_changes::of_changes_that_expect_one_version_one_is_made,
    definition_changes::who_keeps_some_is_told_of_changed_keys_alone,
    definition_changes::definitions_and_events_are_as_a_naive_model_has_them,
    definition_pages::definitions_are_listed_in_the_order_of_their_keys,
    definition_pages::what_is_there_throughout_is_on_one_page_whatever_comes_and_goes,
    definition_events::an_event_is_kept_if_its_change_is_made_and_only_then,
    definition_events::events_are_listed_in_order_of_all_and_of_one_subject,
    definition_events::an_event_is_over_after_its_time_and_the_oldest_of_too_many_go,
    definition_events::versions_and_events_survive_a_restart,
    namespaces::the_same_names_in_two_namespaces_share_nothing,
    namespaces::a_namespace_is_cleared_to_nothing_and_no_other_is_touched,
    namespaces::a_clear_that_was_cut_short_is_done_by_the_next,
    pools::a_retry_at_another_process_finds_the_member_that_granted,
    opening::two_opens_of_one_name_are_an_error,
    opening::a_table_opened_with_other_levels_is_an_error,
    opening::a_table_opened_again_goes_on_where_it_was_left,
    opening::state_survives_a_restart,
    opening::a_table_that_is_forgotten_begins_anew_unless_others_share_it,
    opening::every_limit_that_can_be_made_is_read_back,
    usage::what_is_consumed_is_counted,
    usage::what_is_taken_of_buckets_is_counted,
    usage::usage_is_counted_in_the_hour_in_which_it_is_charged,
    usage_leases::a_late_settlement_corrects_the_hour_that_was_charged,
    usage_leases::a_lease_counts_in_the_hour_it_was_granted_however_it_is_adjusted,
    usage::what_is_repeated_is_counted_once,
    usage_leases::an_expired_lease_stays_counted_as_its_limits_have_it,
    usage_leases::what_expired_leases_give_back_is_not_listed,
    usage_leases::what_a_lease_gives_back_is_not_on_the_pages_after_its_expiry,
    usage::ancestors_have_usage_of_their_own,
    usage::a_limit_may_be_called_anything,
    usage_records::usage_is_kept_for_as_long_as_the_plan_says,
    usage_records::a_shorter_retention_holds_for_what_there_is_and_a_longer_one_from_then_on,
    usage::a_reset_and_a_change_of_limits_leave_what_was_used,
    usage::a_limit_that_moves_below_a_key_breaks_no_command_there,
    usage_leases::a_lease_gives_back_where_it_was_counted_however_its_limits_change,
    usage_leases::a_lease_of_many_charges_gives_each_back_where_it_was_counted,
    usage_leases::nothing_is_counted_of_a_lease_that_was_granted_uncounted,
    usage::of_a_shadow_that_refuses_nothing_is_counted,
    usage::a_batch_is_counted_like_its_items_by_themselves,
    usage_records::usage_is_listed_in_pages_each_record_once,
    usage_records::usage_in_rows_and_in_records_is_listed_once_at_every_size_of_pages,
    usage::what_was_used_of_a_bucket_keeps_the_name_it_had,
    usage_leases::a_late_settlement_by_another_name_takes_nothing_from_what_is_used_later,
    usage_leases::what_an_expired_lease_gives_back_is_not_taken_from_what_is_used_after_it,
    usage_records::more_than_ten_thousand_hours_add_up,
    usage_records::usage_survives_a_restart,
    usage_records::a_table_that_is_full_of_usage_refuses_what_is_new_and_counts_the_rest,
    usage_records::a_table_that_is_full_of_usage_goes_on_with_the_records_that_it_has,
    usage_records::a_table_that_is_full_of_usage_answers_retries_and_refusals,
    usage_records::the_largest_amounts_add_up,
    usage_histories::random_histories_add_up_in_the_hours_that_were_charged,
    vectors::every_vector_is_answered_as_written,
];

/// Runs the check called `name`.
///
/// # Panics
/// If the store breaks the sentence, or none is called so.
pub fn run(name: &str, subject: &Subject) {
    let check = CHECKS.iter().find(|(known, _)| *known == name);
    let (_, check) = check.unwrap_or_else(|| panic!("no check is called {name}"));
    if let Err(reason) = check(subject) {
        println!("skipped {name}: {reason}");
    }
}

/// Runs all of them, one after the other.
///
/// # Panics
/// As [`run`].
pub fn run_all(subject: &Subject) {
    CHECKS.iter().for_each(|(name, _)| run(name, subject));
}

/// A test for each check, one for the [`laws`](crate::laws), one for each walk
/// ([`walk`](crate::walk), [`single_bucket`](crate::single_bucket)) and one for the
/// [`differential`](crate::differential()), on the subject that the expression
/// gives.
#[macro_export]
macro_rules! suite {
    ($subject:expr) => {
        $crate::suite! {
            $subject;
            all_or_nothing_across_limits_and_ancestors
            a_refusal_changes_nothing
            a_limit_beside_a_busy_one_refills_at_its_own_rate
            the_reported_instant_is_exact_across_limits_and_ancestors
            a_debit_is_charged_whether_it_fits_or_not
            a_clock_that_steps_back_admits_nothing_more
            a_batch_is_answered_in_its_order
            those_of_one_root_are_decided_one_after_the_other
            what_one_of_a_batch_is_refused_is_no_concern_of_the_others
            a_batch_is_decided_at_one_instant
            a_batch_of_many_rows_with_logs_is_decided
            nothing_drains_between_those_of_a_batch
            a_batch_made_for_older_limits_is_told_so_and_charges_nothing
            a_lease_is_settled_once_and_a_retry_gets_the_first_answer
            slots_come_back_at_expiry_and_not_before
            a_lease_that_expired_is_charged_its_real_use
            a_renewed_lease_is_held_to_its_new_expiry
            a_fence_grows_across_release_expiry_and_reset
            the_same_idempotency_key_gives_the_same_lease
            a_retry_after_the_end_of_its_lease_takes_anew
            a_lease_is_nobody_elses_to_end
            a_reset_leaves_alone_what_only_looks_like_a_descendant
            a_step_back_is_noted_where_an_id_is_refused
            a_lease_says_when_it_was_granted
            a_renewal_and_an_adjustment_leave_when_a_lease_was_granted
            a_retry_is_told_when_its_lease_was_granted
            a_restart_leaves_when_a_lease_was_granted
            a_take_that_may_be_partial_gets_of_each_limit_what_is_there
            a_take_of_less_than_the_least_takes_nothing_and_says_when_it_is_there
            what_was_taken_partly_is_good_until_the_window_ends_or_the_lease
            what_was_taken_partly_and_not_used_comes_back_where_it_was_charged
            a_lease_whose_answer_nobody_takes_is_given_back
            what_is_charged_without_a_lease_stays_charged_whoever_takes_the_answer
            a_lease_of_an_idempotency_key_stays_for_the_retry
            an_end_whose_answer_nobody_takes_is_an_end
            an_adjustment_whose_answer_nobody_takes_is_made_whole_or_not_and_once_by_a_retry
            a_lease_is_adjusted_all_or_nothing
            an_adjustment_that_is_repeated_changes_nothing
            a_lease_is_adjusted_into_debt_where_that_is_said
            a_shadow_that_let_a_lease_in_counts_whatever_it_is_adjusted_to
            a_shadow_of_which_a_lease_has_nothing_stays_so_when_it_is_adjusted
            a_shadow_that_is_none_any_more_is_charged_once
            less_is_given_back_where_it_was_charged
            a_lease_is_adjusted_any_number_of_times
            a_lease_that_is_not_held_is_not_adjusted
            an_adjusted_leases_slots_come_back_on_a_clock_that_stepped_back
            a_lease_is_adjusted_whatever_is_due_before_it
            less_slots_are_held_whatever_the_capacity_has_become
            an_overdraft_that_is_taken_back_leaves_what_others_used
            a_refused_adjustment_leaves_what_has_expired_as_it_was
            a_capacity_that_changes_ten_times_a_second_forgets_nothing
            a_capacity_is_lowered_and_raised_between_two_commands
            two_callers_with_capacities_of_their_own_count_the_same_usage
            a_key_with_limits_of_its_own_has_no_other_capacity
            keys_of_any_bytes_do_not_collide
            a_path_of_entities_charges_every_ancestor_or_none
            an_entity_that_moves_within_its_root_keeps_what_it_has_used
            only_the_roots_row_is_shared_with_composed_keys
            keys_of_one_level_are_no_paths_of_entities
            a_lease_of_an_entity_is_settled_where_it_was_granted
            a_lease_of_an_entity_gives_back_at_its_expiry_where_it_was_granted
            a_reset_of_an_entity_is_of_it_alone_wherever_it_was
            an_entitys_own_limits_hold_wherever_it_is
            entities_are_listed_by_the_names_of_their_rows
            what_an_entity_has_used_survives_a_restart
            a_key_in_use_is_listed_once_whatever_comes_meanwhile
            keys_are_listed_by_their_beginning_and_ancestors_with_them
            a_key_that_equals_never_seen_is_not_listed
            a_held_lease_is_listed_with_what_it_took
            leases_that_expire_together_are_listed_once_each
            a_page_that_another_table_began_is_an_error
            a_cursor_that_was_tampered_with_is_the_callers_error
            leases_are_listed_whatever_bytes_the_keys_have
            a_table_counts_its_keys_and_the_ancestors_that_have_state
            a_table_of_one_bucket_counts_its_keys
            leases_are_counted_while_they_are_held_and_then_remembered
            a_bounded_store_answers_as_an_unbounded_one_or_says_that_it_is_full
            a_store_that_is_full_halfway_up_a_hierarchy_changes_nothing
            no_more_leases_are_held_than_there_is_room_for
            raising_a_limit_delays_no_one
            a_limit_counts_from_when_it_was_added_to_when_it_was_removed
            a_command_made_for_older_limits_is_told_so
            two_versions_asked_in_turn_admit_no_more_than_the_larger_alone
            a_limit_that_is_added_is_one_limit_to_sets_of_different_age
            what_expired_before_a_change_comes_back_by_the_limits_of_then
            a_limit_that_one_server_does_not_know_is_counted_through_it
            a_key_keeps_its_own_limit_through_a_server_that_does_not_know_it
            a_server_two_versions_behind_makes_no_limit_begin_anew
            a_limit_that_all_have_let_go_counts_from_when_it_is_added_again
            a_clock_before_a_change_makes_no_limit_begin_anew
            a_lease_is_ended_and_renewed_by_a_server_that_does_not_know_its_limit
            a_reset_forgets_what_the_server_that_is_asked_does_not_know
            what_expired_comes_back_by_its_keys_own_limit_whoever_finds_it
            a_change_that_is_passed_over_forgets_nothing_of_a_keys_own_row
            a_limit_of_its_own_holds_for_its_key_and_no_other
            raising_a_keys_own_limit_delays_no_one
            a_lowered_limit_of_a_key_keeps_what_was_used
            ancestors_have_limits_of_their_own
            a_limit_of_its_own_outlives_the_rows_of_its_key
            what_was_used_by_limits_of_its_own_survives_a_restart
            a_limit_of_its_own_that_was_removed_counts_from_when_it_is_added_again
            a_definition_is_kept_for_its_owner_until_it_is_removed
            definitions_survive_a_restart
            every_change_of_a_definition_has_a_newer_version
            who_knows_a_version_that_was_never_made_is_given_every_definition
            who_is_far_behind_is_given_every_definition
            who_follows_knows_a_definition_before_it_is_answered
            what_is_defined_at_one_handle_holds_at_another
            a_definition_lasts_for_as_long_as_it_says
            a_definition_is_read_by_itself_with_the_version_of_its_last_change
            a_definition_is_read_with_its_ancestors
            a_definition_and_its_ancestors_are_read_as_of_one_instant
            a_definition_is_changed_if_it_has_the_version_that_is_expected
            of_changes_that_expect_one_version_one_is_made
            who_keeps_some_is_told_of_changed_keys_alone
            definitions_and_events_are_as_a_naive_model_has_them
            definitions_are_listed_in_the_order_of_their_keys
            what_is_there_throughout_is_on_one_page_whatever_comes_and_goes
            an_event_is_kept_if_its_change_is_made_and_only_then
            events_are_listed_in_order_of_all_and_of_one_subject
            an_event_is_over_after_its_time_and_the_oldest_of_too_many_go
            versions_and_events_survive_a_restart
            the_same_names_in_two_namespaces_share_nothing
            a_namespace_is_cleared_to_nothing_and_no_other_is_touched
            a_clear_that_was_cut_short_is_done_by_the_next
            a_retry_at_another_process_finds_the_member_that_granted
            two_opens_of_one_name_are_an_error
            a_table_opened_with_other_levels_is_an_error
            a_table_opened_again_goes_on_where_it_was_left
            state_survives_a_restart
            a_table_that_is_forgotten_begins_anew_unless_others_share_it
            every_limit_that_can_be_made_is_read_back
            what_is_consumed_is_counted
            what_is_taken_of_buckets_is_counted
            usage_is_counted_in_the_hour_in_which_it_is_charged
            a_late_settlement_corrects_the_hour_that_was_charged
            a_lease_counts_in_the_hour_it_was_granted_however_it_is_adjusted
            what_is_repeated_is_counted_once
            an_expired_lease_stays_counted_as_its_limits_have_it
            what_expired_leases_give_back_is_not_listed
            what_a_lease_gives_back_is_not_on_the_pages_after_its_expiry
            ancestors_have_usage_of_their_own
            a_limit_may_be_called_anything
            usage_is_kept_for_as_long_as_the_plan_says
            a_shorter_retention_holds_for_what_there_is_and_a_longer_one_from_then_on
            a_reset_and_a_change_of_limits_leave_what_was_used
            a_limit_that_moves_below_a_key_breaks_no_command_there
            a_lease_gives_back_where_it_was_counted_however_its_limits_change
            a_lease_of_many_charges_gives_each_back_where_it_was_counted
            nothing_is_counted_of_a_lease_that_was_granted_uncounted
            of_a_shadow_that_refuses_nothing_is_counted
            a_batch_is_counted_like_its_items_by_themselves
            usage_is_listed_in_pages_each_record_once
            usage_in_rows_and_in_records_is_listed_once_at_every_size_of_pages
            what_was_used_of_a_bucket_keeps_the_name_it_had
            a_late_settlement_by_another_name_takes_nothing_from_what_is_used_later
            what_an_expired_lease_gives_back_is_not_taken_from_what_is_used_after_it
            more_than_ten_thousand_hours_add_up
            usage_survives_a_restart
            a_table_that_is_full_of_usage_refuses_what_is_new_and_counts_the_rest
            a_table_that_is_full_of_usage_goes_on_with_the_records_that_it_has
            a_table_that_is_full_of_usage_answers_retries_and_refusals
            the_largest_amounts_add_up
            random_histories_add_up_in_the_hours_that_were_charged
            every_vector_is_answered_as_written
        }
    };
    ($subject:expr; $($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                $crate::checks::run(stringify!($name), &$subject);
            }
        )*

        #[test]
        fn the_suite_runs_every_check() {
            let here = [$(stringify!($name)),*];
            let all = $crate::checks::CHECKS.iter().map(|(name, _)| *name);
            assert!(all.eq(here));
        }

        #[test]
        fn every_store_keeps_the_cores_laws() {
            $crate::laws::hold(&$subject);
        }

        #[test]
        fn every_store_gives_the_cores_answer() {
            $crate::walk::agrees_with_the_model(&$subject);
        }

        #[test]
        fn every_store_gives_the_cores_answer_to_a_single_bucket() {
            $crate::single_bucket::agrees_with_the_model(&$subject);
        }

        #[test]
        fn every_store_gives_the_references_answer() {
            let subject = $subject;
            $crate::differential(&subject, 1, subject.random_commands());
        }
    };
}
