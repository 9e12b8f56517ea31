//! What a server's file says of the policies of namespaces.

use tidegate_policy::PolicyFile;

/// What a server's file says of the policies of namespaces.
#[derive(Clone, PartialEq, Debug)]
pub struct NamespacePolicies {
    /// Of those that it says nothing of.
    pub usual: PolicyFile,
    /// Of some, by name.
    pub own: Vec<(String, PolicyFile)>,
}

impl NamespacePolicies {
    /// Those of the namespace called `name`.
    pub(super) fn of(&self, name: &str) -> &PolicyFile {
        let own = self.own.iter().find(|(own, _)| own == name);
        own.map_or(&self.usual, |(_, file)| file)
    }
}
