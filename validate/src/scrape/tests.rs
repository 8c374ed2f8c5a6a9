use super::*;
use bytes::Bytes;
use std::sync::{Arc, Mutex};

/// Host, after a delay in milliseconds, its queries counter or nothing.
type Line = (&'static str, u64, Option<u64>);

/// Engines that answer each question by a script.
#[derive(Clone)]
struct Script(Arc<Mutex<Vec<Line>>>);

impl Script {
    /// Answers of the replicas, in the order of the questions to each.
    fn new(answers: &[Line]) -> Script {
        Script(Arc::new(Mutex::new(answers.to_vec())))
    }
}

impl Fetch for Script {
    async fn fetch(&self, target: &Target, _: &str, _: Option<Bytes>) -> Result<String, String> {
        let url = target.host.as_str();
        let (delay_ms, queries) = {
            let mut answers = self.0.lock().unwrap();
            match answers.iter().position(|(of, ..)| *of == url) {
                Some(next) => {
                    let (_, delay_ms, queries) = answers.remove(next);
                    (delay_ms, queries)
                }
                None => (0, None),
            }
        };
        tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        let queries = queries.ok_or_else(|| format!("{url}: refused"))?;
        Ok(format!(
            "vllm:num_requests_waiting 2\nvllm:prefix_cache_queries_total {queries}\n\
             vllm:time_to_first_token_seconds_sum {}\nvllm:time_to_first_token_seconds_count {queries}\n",
            queries as f64 * 0.25
        ))
    }
}

fn target(host: &str) -> Target {
    Target::parse(&format!("http://{host}")).unwrap()
}

/// (milliseconds, replica, queries) of each row, in order.
async fn rows_of(script: &Script, replicas: &[&str], run_ms: u64) -> (Vec<(u64, u32, u64)>, Vec<History>) {
    let targets: Vec<Target> = replicas.iter().map(|host| target(host)).collect();
    let scraper = Scraper::start(script, &targets, Duration::from_millis(100), Instant::now());
    tokio::time::sleep(Duration::from_millis(run_ms)).await;
    let scraped = scraper.finish().await;
    let mut rows: Vec<_> =
        scraped.rows.iter().map(|row| (row.at.0 / 1_000_000, row.replica, row.prefix_queries)).collect();
    rows.sort_unstable();
    (rows, scraped.replicas)
}

#[tokio::test(start_paused = true)]
async fn rounds_have_one_time_and_counters_begin_at_zero() {
    let script = Script::new(&[
        ("a", 0, Some(500)),
        ("a", 3, Some(510)),
        ("a", 0, Some(530)),
        ("b", 40, Some(7)),
        ("b", 0, Some(7)),
        ("b", 5, Some(9)),
    ]);
    let (rows, replicas) = rows_of(&script, &["a", "b"], 150).await;
    assert_eq!(rows, [(0, 0, 0), (0, 1, 0), (100, 0, 10), (100, 1, 0), (150, 0, 30), (150, 1, 2)]);
    assert_eq!((replicas[0].asked, replicas[0].answered), (3, 3));
    assert_eq!(replicas[0].first.as_ref().unwrap().waiting, Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_hangs_gives_no_row_delays_nobody_and_comes_back() {
    let script = Script::new(&[
        ("a", 0, Some(1)),
        ("a", 0, Some(2)),
        ("a", 0, Some(3)),
        ("a", 0, Some(4)),
        ("b", 0, Some(10)),
        ("b", 60_000, Some(11)),
        ("b", 0, None),
        ("b", 0, Some(14)),
    ]);
    let (rows, replicas) = rows_of(&script, &["a", "b"], 301).await;
    let of = |replica| rows.iter().filter(move |row| row.1 == replica).map(|row| (row.0, row.2));
    assert_eq!(of(0).collect::<Vec<_>>(), [(0, 0), (100, 1), (200, 2), (300, 3)]);
    assert_eq!(of(1).collect::<Vec<_>>(), [(0, 0), (300, 4)]);
    assert_eq!((replicas[1].asked, replicas[1].answered), (5, 2));
    assert_eq!(replicas[1].last_error.as_deref(), Some("b: refused"));
}

#[tokio::test(start_paused = true)]
async fn a_restarted_replica_counts_on() {
    let script =
        Script::new(&[("a", 0, Some(100)), ("a", 0, Some(160)), ("a", 0, Some(5)), ("a", 0, Some(8))]);
    let (rows, replicas) = rows_of(&script, &["a"], 201).await;
    assert_eq!(rows, [(0, 0, 0), (100, 0, 60), (200, 0, 65), (201, 0, 68)]);
    assert_eq!(replicas[0].total().prefix_queries, 68);
}

#[tokio::test(start_paused = true)]
async fn growth_is_taken_over_a_window() {
    let script = Script::new(&[
        ("a", 0, Some(10)),
        ("a", 0, Some(14)),
        ("a", 0, Some(30)),
        ("a", 0, Some(70)),
        ("a", 0, Some(150)),
    ]);
    let (_, replicas) = rows_of(&script, &["a"], 320).await;
    let ms = |ms: u64| Nanos(ms * 1_000_000);
    let queries = |from, to| replicas[0].between(ms(from), ms(to)).unwrap().prefix_queries;
    assert_eq!(queries(0, 320), 140);
    assert_eq!(queries(100, 200), 16);
    assert_eq!(queries(150, 250), 56, "from the scrape before to the scrape after");
    assert_eq!(queries(400, 500), 80, "nothing was scraped there: the last two");
    assert_eq!(queries(0, 0), 4);
    let window = replicas[0].between(ms(100), ms(320)).unwrap();
    assert!((window.ttft_mean_ms().unwrap() - 250.0).abs() < 1e-9);
    assert_eq!(window.prefix_hit_share(), Some(0.0));
    assert_eq!(History::new(&target("a")).between(ms(0), ms(1)), None);
}
