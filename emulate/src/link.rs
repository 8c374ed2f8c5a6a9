//! The replica's end of the network: connections that can be cut, each alone or all at once as when a process dies.

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Cuts one connection.
#[derive(Clone, Debug)]
pub struct Switch(Arc<watch::Sender<bool>>);

impl Switch {
    /// Resets the connection.
    pub fn cut(&self) {
        self.0.send_replace(true);
    }
}

impl Connected<IncomingStream<'_, Door>> for Switch {
    fn connect_info(stream: IncomingStream<'_, Door>) -> Self {
        stream.io().switch.clone()
    }
}

/// A listener whose connections are cut when its process dies.
pub struct Door {
    listener: TcpListener,
    dead: watch::Receiver<bool>,
}

impl Door {
    /// Of a process that is dead once `dead` is true.
    #[must_use]
    pub fn new(listener: TcpListener, dead: watch::Receiver<bool>) -> Door {
        Door { listener, dead }
    }
}

impl Listener for Door {
    type Io = Wire;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Wire, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    // A chunk must not wait for the acknowledgement of the one before it.
                    let _ = stream.set_nodelay(true);
                    return (Wire::new(stream, self.dead.clone()), peer);
                }
                // Out of descriptors, or the client is gone already: others may come.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection.
pub struct Wire {
    stream: TcpStream,
    switch: Switch,
    /// Ends when it is to be cut.
    cut: Pin<Box<dyn Future<Output = ()> + Send>>,
    is_cut: bool,
}

impl Wire {
    fn new(stream: TcpStream, mut dead: watch::Receiver<bool>) -> Wire {
        let (sender, mut own) = watch::channel(false);
        let cut = Box::pin(async move {
            // An error means that nobody is left who could cut: the process is gone.
            tokio::select! {
                _ = dead.wait_for(|dead| *dead) => {}
                _ = own.wait_for(|cut| *cut) => {}
            }
        });
        Wire { stream, switch: Switch(Arc::new(sender)), cut, is_cut: false }
    }

    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if !self.is_cut && self.cut.as_mut().poll(context).is_ready() {
            self.is_cut = true;
            // The peer sees a reset, not an orderly end.
            let _ = self.stream.set_zero_linger();
        }
        if self.is_cut { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write(context, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write_vectored(context, data)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
