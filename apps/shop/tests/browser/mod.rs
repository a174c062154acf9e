//! A headless Chromium, driven over the DevTools protocol.
//!
//! Over a pipe, which needs no client for web sockets: with `--remote-debugging-pipe`, Chromium reads messages, each ended by a
//! zero byte, from its descriptor 3, and writes them to 4. A shell makes these two of the child's input and output.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use lockkeeper_faults::skip;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Where it is, if not under one of its names on the path.
const VARIABLE: &str = "LOCKKEEPER_CHROMIUM";
/// `xtask` looks for the same, and a test there says so.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];
const FLAGS: &str = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
                     --disable-component-update --disable-sync --disable-extensions --disable-dev-shm-usage \
                     --remote-debugging-pipe";
/// Starting it on a busy machine takes a while.
const WITHIN: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(20);

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: Option<String>,
    last_id: u64,
    _profile: TempDir,
}

impl Browser {
    /// None where there is no Chromium, which is said.
    pub(crate) fn start() -> Option<Self> {
        let Some(program) = find() else {
            skip("chromium, install it, set LOCKKEEPER_CHROMIUM or run cargo xtask test");
            return None;
        };
        let profile = TempDir::new().unwrap();
        let line = format!(
            "exec \"$0\" {FLAGS} --user-data-dir=\"$1\" about:blank 3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null"
        );
        let mut command = Command::new("sh");
        command.args(["-c", &line, &program]).arg(profile.path());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut browser = Self { child, to, from, session: None, last_id: 0, _profile: profile };
        let target = browser.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", &target);
        browser.session = Some(session["sessionId"].as_str().unwrap().to_owned());
        browser.call("Page.enable", &json!({}));
        Some(browser)
    }

    /// One call of the protocol, and its result. Events in between are passed over.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Value {
        self.try_call(method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    fn try_call(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.to.write_all(message.to_string().as_bytes()).unwrap();
        self.to.write_all(&[0]).unwrap();
        loop {
            let mut answer = Vec::new();
            self.from.read_until(0, &mut answer).unwrap();
            assert_eq!(answer.pop(), Some(0), "{method}: chromium has ended");
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            if answer["id"] == self.last_id {
                return if answer["error"].is_null() { Ok(answer["result"].clone()) } else { Err(answer) };
            }
        }
    }

    /// Goes there, and waits until it is loaded.
    pub(crate) fn open(&mut self, url: &str) {
        let gone = self.call("Page.navigate", &json!({ "url": url }));
        assert!(gone["errorText"].is_null(), "{url}: {gone}");
        self.until("the page is loaded", "location.href !== 'about:blank'");
    }

    /// What this script comes to; awaited, where it is a promise.
    pub(crate) fn eval(&mut self, script: &str) -> Value {
        self.try_eval(script).unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    fn try_eval(&mut self, script: &str) -> Result<Value, Value> {
        let params = json!({ "expression": script, "returnByValue": true, "awaitPromise": true });
        let answer = self.try_call("Runtime.evaluate", &params)?;
        match answer["exceptionDetails"].is_null() {
            true => Ok(answer["result"]["value"].clone()),
            false => Err(answer),
        }
    }

    /// Waits until this script is true of a page that is loaded. While one page goes and the next one comes, scripts fail.
    pub(crate) fn until(&mut self, what: &str, script: &str) {
        let (begun, script) = (Instant::now(), format!("document.readyState === 'complete' && ({script})"));
        loop {
            let last = self.try_eval(&script);
            if last == Ok(true.into()) {
                return;
            }
            assert!(begun.elapsed() < WITHIN, "not within {WITHIN:?}: {what}; last {last:?}");
            std::thread::sleep(STEP);
        }
    }

    /// Types into the field that matches `selector`, in place of what is there, as a person would.
    pub(crate) fn type_into(&mut self, selector: &str, text: &str) {
        self.eval(&format!("document.querySelector('{selector}').select()"));
        self.call("Input.insertText", &json!({ "text": text }));
    }

    /// Clicks `times` into the middle of what matches `selector`, with the mouse.
    pub(crate) fn click(&mut self, selector: &str, times: u32) {
        let middle = format!(
            "(() => {{ const box = document.querySelector('{selector}').getBoundingClientRect(); \
             return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        );
        let at = self.eval(&middle);
        for count in 1..=times {
            for kind in ["mousePressed", "mouseReleased"] {
                let event =
                    json!({ "type": kind, "x": at[0], "y": at[1], "button": "left", "clickCount": count });
                self.call("Input.dispatchMouseEvent", &event);
            }
        }
    }

    /// The text of what matches `selector`.
    pub(crate) fn text(&mut self, selector: &str) -> String {
        let text = self.eval(&format!("document.querySelector('{selector}').textContent"));
        text.as_str().unwrap().to_owned()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let close = json!({ "id": 0, "method": "Browser.close" }).to_string();
        let _ = self.to.write_all(close.as_bytes()).and_then(|()| self.to.write_all(&[0]));
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(5) {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(STEP);
        }
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

fn find() -> Option<String> {
    let works = |program: &String| {
        let tried =
            Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        tried.is_ok_and(|status| status.success())
    };
    let named = std::env::var(VARIABLE).ok().filter(|value| !value.is_empty());
    named.into_iter().chain(NAMES.map(str::to_owned)).find(works)
}
