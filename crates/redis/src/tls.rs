//! Certificates: whom a connection trusts, and as whom it comes. Checked when they are given, not when they are used.

use std::fmt;

use lockkeeper_core::Error;
use redis::{ClientTlsConfig, TlsCertificates};
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

/// The largest file of certificates, or of a key, that is taken.
const MAX_PEM_BYTES: usize = 1 << 20;

/// The settings of all connections with TLS.
#[derive(Clone, Default)]
pub(crate) struct Tls {
    root: Option<Vec<u8>>,
    client: Option<Client>,
}

/// A certificate with those that vouch for it, and its key. PEM.
#[derive(Clone)]
struct Client {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Tls {
    /// Trusts these authorities instead of the system's.
    pub(crate) fn trust(&mut self, pem: Vec<u8>) -> Result<(), Error> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&pem, ROOT)? {
            roots.add(certificate).map_err(|error| bad(format!("{ROOT}: {error}")))?;
        }
        self.root = Some(pem);
        Ok(())
    }

    /// Shows this certificate to servers that ask for one.
    pub(crate) fn present(&mut self, certificate: Vec<u8>, key: Vec<u8>) -> Result<(), Error> {
        let chain = certificates(&certificate, CERTIFICATE)?;
        let signing = ring::sign::any_supported_type(&private_key(&key)?)
            .map_err(|_| bad(format!("{KEY} is damaged, or of a kind that is not supported")))?;
        // A key that cannot say which public key it belongs to is believed.
        if let Err(error) = CertifiedKey::new(chain, signing).keys_match() {
            match error {
                rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown) => {}
                rustls::Error::InconsistentKeys(_) => {
                    return Err(bad("the client's key is not that of its certificate"));
                }
                _ => return Err(bad(format!("{CERTIFICATE}: {error}"))),
            }
        }
        self.client = Some(Client { certificate, key });
        Ok(())
    }

    /// As the client crate takes them.
    pub(crate) fn certificates(&self) -> TlsCertificates {
        let client_tls = self
            .client
            .clone()
            .map(|client| ClientTlsConfig { client_cert: client.certificate, client_key: client.key });
        TlsCertificates { client_tls, root_cert: self.root.clone() }
    }
}

/// Never with a key in it.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (root, client) = (self.root.is_some(), self.client.is_some());
        f.debug_struct("Tls").field("root", &root).field("client", &client).finish()
    }
}

const ROOT: &str = "the certificate authority";
const CERTIFICATE: &str = "the client's certificate";
const KEY: &str = "the client's key";

fn bad(detail: impl Into<String>) -> Error {
    Error::bad_argument("tls", detail)
}

fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    check_size(pem, what)?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(found) if found.is_empty() => Err(bad(format!("{what} is not PEM: no certificate is in it"))),
        Ok(found) => Ok(found),
        Err(_) => Err(bad(format!("{what} is damaged PEM"))),
    }
}

fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, Error> {
    check_size(pem, KEY)?;
    let is_encrypted = pem.windows(ENCRYPTED.len()).any(|window| window == ENCRYPTED);
    PrivateKeyDer::from_pem_slice(pem).map_err(|_| match is_encrypted {
        true => bad(format!("{KEY} is encrypted: decrypt it first, for example with openssl pkey")),
        false => bad(format!("{KEY} is not PEM: no private key is in it")),
    })
}

/// What an encrypted key has in its header, or in the line after it.
const ENCRYPTED: &[u8] = b"ENCRYPTED";

fn check_size(pem: &[u8], what: &str) -> Result<(), Error> {
    match pem.len() {
        0..=MAX_PEM_BYTES => Ok(()),
        _ => Err(bad(format!("{what} is larger than {MAX_PEM_BYTES} bytes"))),
    }
}
