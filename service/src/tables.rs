//! What the store calls the table of a policy, of a pool's member, and of a rate that
//! comes with the call: no two of them alike, whatever the policies are called.
//!
//! ```text
//! NAME                      a policy
//! NAME/LEVEL/LEVEL          one whose keys have levels: keys of others are other keys
//! NAME//MEMBER              a pool's member (behind the levels, if there are any)
//! cl//BURST/COUNT/SECONDS   a rate
//! ```
//! In the name of a policy `%` is written as `%25` and `/` as `%2F`; names of levels and
//! members have no slash, and no level is empty.

use super::rate::Rate;
use tidegate_policy::{Policy, PolicyMember};

/// The table of a policy, or of its member.
pub(super) fn of_policy(policy: &Policy, member: Option<&PolicyMember>) -> String {
    let member = member.map(|member| member.name.as_str());
    joined(&policy.name, &policy.levels, member)
}

/// The table of a rate.
pub(super) fn of_rate(rate: Rate) -> String {
    format!("cl//{}/{}/{}", rate.capacity, rate.count, rate.period_secs)
}

fn joined(policy: &str, levels: &[String], member: Option<&str>) -> String {
    let mut name = policy.replace('%', "%25").replace('/', "%2F");
    for level in levels {
        name += "/";
        name += level;
    }
    if let Some(member) = member {
        name += "//";
        name += member;
    }
    name
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Asked = (String, Vec<String>, Option<String>);

    fn asked() -> impl Strategy<Value = Asked> {
        let levels = proptest::collection::vec("[a%2]{1,2}", 0..3);
        let member = proptest::option::of("[a%2]{0,2}");
        ("[a/%2F]{0,4}", levels, member)
    }

    proptest! {
        #[test]
        fn two_tables_of_one_name_are_one(one in asked(), other in asked()) {
            let name = |(policy, levels, member): &Asked| joined(policy, levels, member.as_deref());
            prop_assert_eq!(name(&one) == name(&other), one == other);
        }
    }

    #[test]
    fn a_policy_without_a_slash_is_called_as_it_is_and_a_rate_as_no_policy() {
        let org = ["org".to_owned()];
        assert_eq!(joined("search", &[], None), "search");
        assert_eq!(joined("search", &org, Some("eu")), "search/org//eu");
        assert_eq!(joined("search/org", &[], None), "search%2Forg");
        assert_eq!(joined("50%", &[], None), "50%25");
        let rate = Rate {
            capacity: 15,
            count: 30,
            period_secs: 60,
        };
        assert_eq!(of_rate(rate), "cl//15/30/60");
        let levels = ["15", "30", "60"].map(str::to_owned);
        assert_eq!(joined("cl", &levels, None), "cl/15/30/60");
    }
}
