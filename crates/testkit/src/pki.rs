//! A certificate authority of a test's own, and what it signs.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};

/// An authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate, PEM.
    pub certificate: String,
}

/// A certificate and its key, PEM.
pub struct Signed {
    /// The certificate.
    pub certificate: String,
    /// The key, PKCS #8.
    pub key: String,
}

/// For whom a certificate is.
#[derive(Clone, Copy, Debug)]
pub enum Of {
    /// A server on this machine.
    Server,
    /// A server of another name.
    Elsewhere,
    /// A client, or a server on this machine, of some years ago.
    Expired,
}

impl Authority {
    /// A new one.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate").pem();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// Signs a new certificate.
    pub fn sign(&self, of: Of) -> Signed {
        let names = match of {
            Of::Server | Of::Expired => vec!["localhost".to_owned(), "127.0.0.1".to_owned()],
            Of::Elsewhere => vec!["elsewhere.example".to_owned()],
        };
        let mut params = CertificateParams::new(names).expect("names");
        if matches!(of, Of::Expired) {
            params.not_before = date_time_ymd(2001, 1, 1);
            params.not_after = date_time_ymd(2002, 1, 1);
        }
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        Signed { certificate, key: key.serialize_pem() }
    }
}

impl Signed {
    /// As two files in `folder`, whose names begin with `name`: the certificate's and the key's.
    pub fn save(&self, folder: &Path, name: &str) -> (PathBuf, PathBuf) {
        (
            save(folder, &format!("{name}.pem"), &self.certificate),
            save(folder, &format!("{name}-key.pem"), &self.key),
        )
    }
}

/// As a file.
pub fn save(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("a file");
    path
}
