//! Landlock: the second barrier around files, and the one around signals and addresses. It stands even if a mount were
//! reached that should not be there.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope,
};

/// The newest rules that we speak; an older kernel enforces what it knows of them.
const NEWEST: ABI = ABI::V6;

/// What the scratch folder allows, by the kernel's version of Landlock, the first being 1. The interpreter adds this
/// rule itself, when the folder exists.
pub fn scratch_access() -> [u64; 3] {
    let refused =
        AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::MakeSock | AccessFs::MakeFifo;
    [ABI::V1, ABI::V2, ABI::V3].map(|abi| (AccessFs::from_all(abi) & !refused).bits())
}

/// A ruleset that allows reading below `readable` and nothing else; `None` where the kernel has no Landlock.
pub fn make(readable: &[PathBuf], devices: &[&str]) -> Result<Option<OwnedFd>, RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?;
    for path in readable {
        let Ok(opened) = PathFd::new(path) else { continue };
        let access = if path.is_dir() { AccessFs::ReadFile | AccessFs::ReadDir } else { AccessFs::ReadFile.into() };
        ruleset = ruleset.add_rule(PathBeneath::new(opened, access))?;
    }
    for path in devices {
        let Ok(opened) = PathFd::new(path) else { continue };
        ruleset = ruleset.add_rule(PathBeneath::new(opened, AccessFs::ReadFile | AccessFs::WriteFile))?;
    }
    Ok(ruleset.into())
}
