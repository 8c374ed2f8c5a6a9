//! Connections to one target: kept alive, counted, each driven by whoever uses it, with a timestamp at every socket read.

use crate::clock::RunClock;
use crate::target::Target;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use scaleproof_pack::time::Nanos;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A connection idle for longer is not used again: many servers close theirs after 5 s, and a request that crosses that
/// close on the wire is lost.
const IDLE_MAX: Nanos = Nanos(3_000_000_000);
/// A target that accepts no connection within this is not called dead: it may be slow.
const PROBE: Duration = Duration::from_secs(1);
/// Between a broken connection and asking whether its target is still there: a process that dies closes its
/// sockets one after the other.
const PROBE_AFTER: Duration = Duration::from_millis(50);

/// What requests have as their body.
pub(crate) type Body = Full<Bytes>;

/// What moves the bytes of a connection.
type Driver = http1::Connection<TokioIo<Box<dyn Stream>>, Body>;

/// A byte stream, encrypted or not.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection that speaks HTTP/1.1. Nothing moves on it but while one of its methods is awaited.
pub(crate) struct Connection {
    sender: http1::SendRequest<Body>,
    driver: Pin<Box<Driver>>,
    closed: bool,
    last_read: Arc<AtomicU64>,
    idle_since: Nanos,
    /// Whether it served a request before.
    pub reused: bool,
}

impl Connection {
    /// When bytes last came from the socket.
    pub(crate) fn last_read(&self) -> Nanos {
        Nanos(self.last_read.load(Ordering::Relaxed))
    }

    fn drive(&mut self, cx: &mut Context<'_>) {
        if !self.closed && self.driver.as_mut().poll(cx).is_ready() {
            self.closed = true;
        }
    }

    /// Awaits `future` while bytes move on the connection.
    pub(crate) async fn with<T>(&mut self, future: impl Future<Output = T>) -> T {
        let mut future = std::pin::pin!(future);
        std::future::poll_fn(|cx| {
            // What is read now can be taken at once, so the time of the last read is the time of what is taken.
            self.drive(cx);
            let polled = future.as_mut().poll(cx);
            if polled.is_ready() {
                return polled;
            }
            // Taking nothing may have made room for more.
            self.drive(cx);
            future.as_mut().poll(cx)
        })
        .await
    }

    /// Sends a request; the answer's headers.
    pub(crate) async fn send(&mut self, request: Request<Body>) -> hyper::Result<Response<Incoming>> {
        let answer = self.sender.send_request(request);
        self.with(answer).await
    }

    /// Whether it can take a request now.
    async fn is_open(&mut self) -> bool {
        std::future::poll_fn(|cx| {
            self.drive(cx);
            Poll::Ready(())
        })
        .await;
        !self.closed && self.sender.is_ready()
    }
}

/// The connections to one target.
pub(crate) struct Pool {
    target: Target,
    tls: Option<Arc<rustls::ClientConfig>>,
    clock: RunClock,
    idle: Mutex<Vec<Connection>>,
    opened: AtomicU64,
    reused: AtomicU64,
}

impl Pool {
    /// No connection yet. `tls` is needed for a target that speaks it.
    pub(crate) fn new(target: Target, tls: Option<Arc<rustls::ClientConfig>>, clock: RunClock) -> Pool {
        let (idle, opened, reused) = (Mutex::default(), 0.into(), 0.into());
        Pool { target, tls, clock, idle, opened, reused }
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Connections opened, and requests sent on one that was open already.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.opened.load(Ordering::Relaxed), self.reused.load(Ordering::Relaxed))
    }

    /// A connection: the one used last of those that are open, or a new one.
    pub(crate) async fn take(&self) -> io::Result<Connection> {
        while let Some(mut connection) = self.pop() {
            let rested = self.clock.now().since(connection.idle_since);
            if rested <= IDLE_MAX && connection.is_open().await {
                connection.reused = true;
                self.reused.fetch_add(1, Ordering::Relaxed);
                return Ok(connection);
            }
        }
        self.open().await
    }

    fn pop(&self) -> Option<Connection> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Keeps a connection for the next request, if it can take one.
    pub(crate) async fn put_back(&self, mut connection: Connection) {
        if connection.is_open().await {
            connection.idle_since = self.clock.now();
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
    }

    /// Opens a connection.
    pub(crate) async fn open(&self) -> io::Result<Connection> {
        let socket = self.connect().await?;
        socket.set_nodelay(true)?;
        let last_read = Arc::new(AtomicU64::new(self.clock.now().0));
        let socket = Stamped { socket, clock: self.clock, last_read: Arc::clone(&last_read) };
        let stream: Box<dyn Stream> = match &self.tls {
            Some(config) if self.target.tls => {
                let name = ServerName::try_from(self.target.host.clone()).map_err(io::Error::other)?;
                Box::new(TlsConnector::from(Arc::clone(config)).connect(name, socket).await?)
            }
            _ => Box::new(socket),
        };
        let (sender, driver) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        self.opened.fetch_add(1, Ordering::Relaxed);
        Ok(Connection {
            sender,
            driver: Box::pin(driver),
            closed: false,
            last_read,
            idle_since: Nanos::ZERO,
            reused: false,
        })
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        TcpStream::connect((self.target.host.as_str(), self.target.port)).await
    }

    /// After a connection broke: whether the target refuses new ones, as one whose process has ended.
    pub(crate) async fn is_dead(&self) -> bool {
        tokio::time::sleep(PROBE_AFTER).await;
        let tried = tokio::time::timeout(PROBE, self.connect()).await;
        matches!(tried, Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused)
    }
}

/// A socket that notes when bytes came.
struct Stamped {
    socket: TcpStream,
    clock: RunClock,
    last_read: Arc<AtomicU64>,
}

impl AsyncRead for Stamped {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.socket).poll_read(cx, buf);
        if polled.is_ready() && buf.filled().len() > before {
            self.last_read.store(self.clock.now().0, Ordering::Relaxed);
        }
        polled
    }
}

impl AsyncWrite for Stamped {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}
