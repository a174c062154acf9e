//! The life of a server process: pause, kill, restart, and its certain end.

use std::path::Path;
use std::time::Duration;

use lockkeeper_faults::{RedisServer, ServerBuilder, ServerError, ServerKind, available};

use crate::support::{Conn, wait_for};

fn start(builder: ServerBuilder) -> Option<RedisServer> {
    available(ServerKind::Redis).then(|| builder.start().unwrap())
}

/// The state of a process as Linux tells it: `S`, `T` for stopped, `Z` for a zombie; nothing when it is gone.
fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat[stat.rfind(')')? + 2..].chars().next()
}

#[test]
fn a_paused_server_answers_when_it_is_resumed() {
    let Some(server) = start(RedisServer::builder()) else { return };
    let mut conn = Conn::open(([127, 0, 0, 1], server.port()).into());
    server.pause().unwrap();
    server.pause().unwrap();
    conn.send("PING");
    if cfg!(target_os = "linux") {
        assert_eq!(state(server.pid().unwrap()), Some('T'));
    }
    assert!(server.is_running() && conn.is_silent());
    server.resume().unwrap();
    assert_eq!(conn.read_line().unwrap(), "+PONG");
}

#[test]
fn a_killed_server_is_gone_until_it_is_restarted_on_its_port() {
    let Some(server) = start(RedisServer::builder()) else { return };
    server.command(&["SET", "k", "v"]).unwrap();
    let (port, pid) = (server.port(), server.pid());
    server.kill().unwrap();
    server.kill().unwrap();
    assert!(!server.is_running());
    assert!(matches!(server.command(&["PING"]), Err(ServerError::Io { .. })));
    assert!(matches!(server.pause(), Err(ServerError::NotRunning)));
    assert!(matches!(server.resume(), Err(ServerError::NotRunning)));
    server.restart().unwrap();
    assert_eq!(server.port(), port);
    assert_ne!(server.pid(), pid);
    assert!(server.command(&["GET", "k"]).unwrap().is_nil());
}

#[test]
fn a_running_or_paused_server_can_be_restarted_and_shut_down() {
    let Some(server) = start(RedisServer::builder()) else { return };
    server.restart().unwrap();
    server.pause().unwrap();
    server.restart().unwrap();
    assert_eq!(server.command(&["PING"]).unwrap().as_str(), Some("PONG"));
    server.pause().unwrap();
    server.shutdown().unwrap();
    assert!(!server.is_running());
    assert!(server.log().contains("SIGTERM"), "{}", server.log());
}

#[test]
fn a_persistent_server_remembers() {
    let Some(server) = start(RedisServer::builder().persistent()) else { return };
    server.command(&["SET", "one", "1"]).unwrap();
    server.kill().unwrap();
    server.restart().unwrap();
    assert_eq!(server.command(&["GET", "one"]).unwrap().as_int(), Some(1));
    server.command(&["SET", "two", "2"]).unwrap();
    server.shutdown().unwrap();
    server.restart().unwrap();
    assert_eq!(server.command(&["GET", "two"]).unwrap().as_int(), Some(2));
}

#[test]
fn a_server_that_ends_by_itself_is_seen_to_have_ended() {
    let Some(server) = start(RedisServer::builder()) else { return };
    // There is no reply to this one.
    let _ = server.command(&["SHUTDOWN", "NOSAVE"]);
    wait_for("the end of the server", || !server.is_running());
    assert_eq!(server.pid(), None);
}

#[test]
fn a_dropped_guard_takes_process_and_folder_along() {
    for paused in [false, true] {
        let Some(server) = start(RedisServer::builder()) else { return };
        let (pid, folder) = (server.pid().unwrap(), server.folder().to_owned());
        if paused {
            server.pause().unwrap();
        }
        assert!(folder.exists());
        drop(server);
        assert!(!folder.exists());
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }
}

#[test]
fn servers_outlive_the_thread_that_started_them() {
    let Some(server) = std::thread::spawn(|| start(RedisServer::builder())).join().unwrap() else { return };
    // What would kill the server has happened by the end of the thread, but a signal takes its time.
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(server.command(&["PING"]).unwrap().as_str(), Some("PONG"));
}

/// Not a test: the process that the next test kills. It leaves its server without running a destructor.
#[test]
#[ignore = "a helper process of another test"]
fn helper_that_aborts() {
    let Ok(report) = std::env::var("FAULTS_TEST_REPORT") else { return };
    let server = RedisServer::builder().start().unwrap();
    std::fs::write(report, format!("{} {}", server.pid().unwrap(), server.folder().display())).unwrap();
    std::process::abort();
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_dies_with_an_aborted_parent() {
    let has_setpriv = std::process::Command::new("setpriv").arg("--version").output().is_ok();
    if !available(ServerKind::Redis) || !has_setpriv {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report");
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "lifetime::helper_that_aborts", "--ignored"])
        .env("FAULTS_TEST_REPORT", &report)
        .output()
        .unwrap();
    assert!(!output.status.success());
    let report = std::fs::read_to_string(report).unwrap();
    let (pid, left) = report.split_once(' ').unwrap();
    let pid: u32 = pid.parse().unwrap();
    wait_for("the end of the orphan", || matches!(state(pid), None | Some('Z')));
    std::fs::remove_dir_all(left).unwrap();
}
