//! Authorities and their certificates, made anew for each test.

use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};

/// Somebody who vouches for others.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// Writes `NAME.pem`: whom to believe.
    pub fn write(&self, folder: &Path, name: &str) {
        std::fs::write(folder.join(format!("{name}.pem")), &self.pem).unwrap();
    }

    /// Writes `NAME.pem` and `NAME.key`: a certificate of ours for `localhost`
    /// and 127.0.0.1, and its key.
    pub fn issue(&self, folder: &Path, name: &str) {
        self.issue_as(folder, name, |_| {});
    }

    /// The same, but out of date.
    pub fn issue_expired(&self, folder: &Path, name: &str) {
        self.issue_as(folder, name, |params| {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2021, 1, 1);
        });
    }

    fn issue_as(&self, folder: &Path, name: &str, change: impl FnOnce(&mut CertificateParams)) {
        let key = KeyPair::generate().unwrap();
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let write = |end: &str, text: String| {
            std::fs::write(folder.join(format!("{name}.{end}")), text).unwrap();
        };
        write("pem", certificate.pem());
        write("key", key.serialize_pem());
    }
}
