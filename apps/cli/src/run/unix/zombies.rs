//! Telling the dead members of a process group from the living.
//!
//! A process that ended stays in its group as a zombie until its parent waits for it. The first process of a
//! container, which inherits orphans, is often a program that never does; the group would then look alive for ever.

use std::path::Path;

use rustix::process::Pid;

/// Whether the group has members and all that can be seen are zombies. `false` where the system does not tell.
pub(super) fn are_all_of(group: Pid) -> bool {
    let Ok(processes) = Path::new("/proc").read_dir() else { return false };
    let mut zombies = 0;
    for process in processes.flatten() {
        let Ok(stat) = std::fs::read_to_string(process.path().join("stat")) else { continue };
        match state_in(&stat, group) {
            Some("Z" | "X") => zombies += 1,
            Some(_) => return false,
            None => {}
        }
    }
    zombies > 0
}

/// The state in a process's `stat` (number, name in parentheses, state, parent, group, …) if it is of `group`.
fn state_in(stat: &str, group: Pid) -> Option<&str> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let its_group: i32 = fields.nth(1)?.parse().ok()?;
    (its_group == group.as_raw_nonzero().get()).then_some(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_confuse() {
        let group = Pid::from_raw(77).unwrap();
        assert_eq!(state_in("12 (a) Z 1 5 (b) Z 1 77 3 0", group), Some("Z"));
        assert_eq!(state_in("12 (sh) S 77 12 3 0", group), None);
        assert_eq!(state_in("", group), None);
    }
}
