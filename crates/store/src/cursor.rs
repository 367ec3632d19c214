//! Where a list goes on. A cursor is bound to its tenant and filter: used with others it is refused, not misread.

use data_encoding::BASE64URL_NOPAD;
use sha2::{Digest as _, Sha256};
use toolgate_contracts::{Fault, TenantId};

const BINDING_BYTES: usize = 12;
const CURSOR_BYTES_MAX: usize = 1024;

/// What a cursor belongs to: the same tenant, the same list, the same filter.
#[derive(Clone, Debug)]
pub struct ListOf<'a> {
    pub tenant: TenantId,
    pub list: &'a str,
    pub filter: &'a str,
}

impl ListOf<'_> {
    /// Points behind the item with this key.
    pub fn cursor(&self, last_key: &str) -> String {
        let mut bytes = self.binding(last_key).to_vec();
        bytes.extend_from_slice(last_key.as_bytes());
        BASE64URL_NOPAD.encode(&bytes)
    }

    /// The key behind which the list goes on.
    pub fn key(&self, cursor: &str) -> Result<String, Fault> {
        let refused = || {
            Fault::invalid("the cursor does not belong to this list and filter", "start again without `cursor`")
                .at("/cursor")
        };
        if cursor.len() > CURSOR_BYTES_MAX {
            return Err(refused());
        }
        let bytes = BASE64URL_NOPAD.decode(cursor.as_bytes()).map_err(|_| refused())?;
        let (binding, key) = bytes.split_at_checked(BINDING_BYTES).ok_or_else(refused)?;
        let key = std::str::from_utf8(key).map_err(|_| refused())?;
        if binding == self.binding(key) { Ok(key.to_owned()) } else { Err(refused()) }
    }

    fn binding(&self, last_key: &str) -> [u8; BINDING_BYTES] {
        let mut hash = Sha256::new();
        for part in [
            self.tenant.uuid().as_bytes().as_slice(),
            self.list.as_bytes(),
            self.filter.as_bytes(),
            last_key.as_bytes(),
        ] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let digest: [u8; 32] = hash.finalize().into();
        std::array::from_fn(|index| digest[index])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_works_only_for_its_own_list() {
        let list = ListOf { tenant: TenantId::SYSTEM, list: "calls", filter: "status=failed" };
        let cursor = list.cursor("key");
        assert_eq!(list.key(&cursor).unwrap(), "key");
        assert!(ListOf { filter: "", ..list.clone() }.key(&cursor).is_err());
        assert!(ListOf { list: "runs", ..list.clone() }.key(&cursor).is_err());
        let other = TenantId::from_uuid(uuid::Uuid::from_u128(1));
        assert!(ListOf { tenant: other, ..list.clone() }.key(&cursor).is_err());
        for broken in ["", "x", "!!!!", &cursor[1..], &"A".repeat(2000)] {
            assert!(list.key(broken).is_err(), "{broken}");
        }
    }
}
