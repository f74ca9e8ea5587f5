//! Tests of the election of primaries.

use super::*;

fn standings(notices: &[Notice]) -> Vec<(u64, Standing)> {
    notices.iter().map(|notice| (notice.stream.0, notice.standing)).collect()
}

#[test]
fn the_highest_election_id_ever_seen_is_primary() {
    use Standing::*;
    let mut all = Arbitration::default();
    let [a, b, c] = [(); 3].map(|()| all.open().unwrap());
    assert_eq!(standings(&all.update(a, "", Some(5)).unwrap()), [(0, Primary)]);
    assert_eq!(standings(&all.update(b, "", Some(3)).unwrap()), [(1, Backup)]);
    assert_eq!(
        standings(&all.update(c, "", Some(9)).unwrap()),
        [(0, Backup), (1, Backup), (2, Primary)]
    );
    assert!(all.may_write("", Some(9)).is_ok());
    assert!(matches!(all.may_write("", Some(5)), Err(ControlError::PermissionDenied(_))));
    // The primary's stream ends: there is no primary, as 5 and 3 are below 9.
    let after = all.close(c);
    assert_eq!(standings(&after), [(0, BackupWithoutPrimary), (1, BackupWithoutPrimary)]);
    let Err(ControlError::PermissionDenied(why)) = all.may_write("", Some(5)) else { panic!() };
    assert!(why.contains("the highest election id so far is 9"), "{why}");
    assert_eq!(standings(&all.update(a, "", Some(9)).unwrap()), [(1, Backup), (0, Primary)]);
}

#[test]
fn an_election_id_in_use_and_another_role_close_the_stream() {
    let mut all = Arbitration::default();
    let [a, b] = [(); 2].map(|()| all.open().unwrap());
    all.update(a, "", Some(1)).unwrap();
    let used = all.update(b, "", Some(1)).unwrap_err();
    assert!(used.to_string().contains("election id 1 is used"), "{used}");
    assert!(all.update(b, "other", Some(1)).is_ok(), "roles have ids of their own");
    let changed = all.update(b, "", Some(2)).unwrap_err();
    assert!(matches!(changed, ControlError::FailedPrecondition(_)), "{changed}");
}

#[test]
fn a_controller_without_an_election_id_is_never_primary() {
    let mut all = Arbitration::default();
    let a = all.open().unwrap();
    for nothing in [None, Some(0)] {
        let notices = all.update(a, "", nothing).unwrap();
        assert_eq!(standings(&notices), [(0, Standing::BackupWithoutPrimary)]);
    }
    assert!(all.may_write("", None).is_err());
}

#[test]
fn streams_have_a_bound() {
    let mut all = Arbitration::default();
    let ids: Vec<StreamId> = (0..STREAMS_MAX).map(|_| all.open().unwrap()).collect();
    assert!(matches!(all.open(), Err(ControlError::ResourceExhausted(_))));
    all.close(ids[0]);
    assert!(all.open().is_ok());
}

#[test]
fn roles_have_a_bound_in_number_and_length() {
    let mut all = Arbitration::default();
    let live = all.open().unwrap();
    all.update(live, "live", Some(7)).unwrap();
    let elect = |all: &mut Arbitration, role: &str, election: u128| {
        let id = all.open().unwrap();
        all.update(id, role, Some(election)).unwrap();
        all.close(id);
    };
    elect(&mut all, "", 9);
    for n in 0..ROLES_MAX {
        elect(&mut all, &format!("role {n}"), 5);
    }
    // The role without a name, one with a stream and the latest ones are kept, the first ones are not.
    assert_eq!((all.highest(""), all.highest("live")), (Some(9), Some(7)));
    assert_eq!((all.highest("role 1"), all.highest("role 2")), (None, Some(5)));
    let id = all.open().unwrap();
    let long = all.update(id, &"r".repeat(ROLE_BYTES_MAX + 1), None).unwrap_err();
    assert!(matches!(long, ControlError::ResourceExhausted(_)), "{long}");
}

#[test]
fn a_role_that_no_controller_has_had_is_not_there() {
    let mut all = Arbitration::default();
    assert!(matches!(all.may_write("", Some(1)), Err(ControlError::PermissionDenied(_))));
    assert!(matches!(all.may_write("left", Some(1)), Err(ControlError::NotFound(_))));
    let a = all.open().unwrap();
    all.update(a, "left", None).unwrap();
    let backup = all.may_write("left", Some(1)).unwrap_err();
    assert!(matches!(backup, ControlError::PermissionDenied(_)), "{backup}");
    assert!(backup.to_string().contains("of role left"), "{backup}");
    all.update(a, "left", Some(1)).unwrap();
    assert!(all.may_write("left", Some(1)).is_ok());
    all.close(a);
    assert!(matches!(all.may_write("left", Some(1)), Err(ControlError::PermissionDenied(_))));
}

#[test]
fn a_stream_keeps_its_device() {
    let mut all = Arbitration::default();
    let a = all.open().unwrap();
    let other = || Err(ControlError::NotFound("there is no device 2".into()));
    assert!(matches!(all.check_device(a, other()), Err(ControlError::NotFound(_))));
    all.update(a, "", Some(1)).unwrap();
    assert!(matches!(all.check_device(a, other()), Err(ControlError::FailedPrecondition(_))));
    assert!(all.check_device(a, Ok(())).is_ok());
}
