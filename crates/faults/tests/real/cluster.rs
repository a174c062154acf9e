//! A cluster of real servers.

use lockkeeper_faults::{ClusterServers, RedisServer, ServerKind, available};

/// The slot of `a`.
const SLOT: u16 = 15_495;

#[test]
fn a_slot_moves_in_steps_and_a_replica_takes_over_on_every_kind_of_server() {
    for kind in ServerKind::ALL {
        if !available(kind) {
            continue;
        }
        let cluster = ClusterServers::start(&RedisServer::builder().kind(kind)).unwrap();
        assert_eq!(cluster.owner_of(SLOT).unwrap(), 2, "{kind}");
        let get = |number: usize| cluster.nodes()[number].command(&["GET", "a"]).unwrap();
        cluster.nodes()[2].command(&["SET", "a", "1"]).unwrap();

        let half_way = cluster.begin_move(SLOT, 0).unwrap();
        assert_eq!(get(2).as_str(), Some("1"));
        half_way.carry(b"a").unwrap();
        assert!(get(2).as_str().unwrap().starts_with("ASK 15495"), "{kind}: {:?}", get(2));
        half_way.finish().unwrap();
        assert_eq!((get(0).as_str(), cluster.owner_of(SLOT).unwrap()), (Some("1"), 0), "{kind}");

        cluster.fail_over_to(3).unwrap();
        assert!(
            cluster.nodes()[0].command(&["GET", "a"]).unwrap().as_str().unwrap().starts_with("MOVED"),
            "{kind}"
        );
        assert_eq!(cluster.owner_of(SLOT).unwrap(), 3, "{kind}");
        cluster.wait_ok().unwrap();
    }
}
