//! What systemd wants to know of a service (`Type=notify`, sd_notify(3)).

/// Tells whoever started us, if they want to be told.
pub fn tell(state: &str) {
    #[cfg(target_os = "linux")]
    if let Some(path) = std::env::var_os("NOTIFY_SOCKET") {
        let told = path.to_str().map(|path| send(path, state));
        if let Some(Err(error)) = told {
            tracing::debug!(%error, "the service manager does not hear us");
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = state;
}

/// A path, or a name without one that begins with `@`.
#[cfg(target_os = "linux")]
fn send(path: &str, state: &str) -> std::io::Result<()> {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    let address = match path.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(path)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}
