// SPDX-License-Identifier: GPL-2.0-only

//! Segments and connections that a process hands over to another one, on purpose: by a file
//! descriptor, which is good for nothing but that.
//!
//! `MP_IOC_EXPORT` makes an [`Export`] and its file, `MP_IOC_IMPORT` makes a handle of another
//! context from it. An export of a segment is a use of that segment, which nobody hears of and
//! which ends with the file. An export of a connection is what a connection is asked for by, with
//! the session that it was granted to.
//!
//! Who has made an export pays for it until its last descriptor is closed, and who imports for what
//! comes of that. Both in the same way as for what they make themselves.

use crate::{
    calls::{
        answer,
        deadline,
        expect_zero,
        rights_of, //
    },
    connection::{
        rights_word,
        Connection,
        Goal, //
    },
    context::{
        Context,
        Make,
        Object,
        Shared,
        Shares, //
    },
    link::Link,
    ready::Ready,
    segment::{
        Holding,
        Role, //
    },
    uapi::*,
    window::Lasting, //
};
use kernel::{
    prelude::*,
    sync::{
        Arc,
        SetOnce, //
    },
    uaccess::UserPtr, //
};
use mp_kernel::{
    carrier::{
        Carried,
        Kind, //
    },
    dma_buf::{
        self,
        Buffer, //
    },
    error,
    uaccess::{
        read_sized,
        write_versioned, //
    }, //
};
use mp_proto::sharing::{
    self,
    Rights, //
};

/// What is handed over.
enum What {
    /// A use of the segment, that of the descriptor.
    Segment(Arc<Holding>),
    /// Who connects to what, and where.
    Connection {
        link: Arc<Link>,
        goal: Goal,
        /// Of the one that it was granted to, which it does not keep.
        session: Option<(u32, Arc<Ready>)>,
    },
}

/// What a descriptor leads to.
struct Export {
    what: What,
    rights: Rights,
    shared: Arc<Shared>,
    _shares: Shares,
}

impl Carried for Export {
    const NAME: &'static CStr = c"[mp_export]";
}

impl Drop for Export {
    fn drop(&mut self) {
        if let What::Segment(holding) = &self.what {
            // By force that is possible. As at the end of a process, nobody waits for peers: the
            // memory is not given to others before.
            let _ = holding.remove(&self.shared.links, true);
        }
    }
}

/// The files of descriptors.
static EXPORTS: Kind<Export> = Kind::new();

/// This module.
static MODULE: SetOnce<&'static ThisModule> = SetOnce::new();

/// Let there be such files, of this module.
pub(crate) fn start(module: &'static ThisModule) {
    EXPORTS.start(module);
    MODULE.populate(module);
}

/// Deal with `MP_IOC_SEGMENT_DMABUF`.
///
/// # Errors
///
/// Those in the header.
pub(crate) fn export_dma_buf(context: &Context, arg: UserPtr) -> Result {
    let (mut export, size) = read_sized::<mp_segment_dmabuf>(arg)?;
    expect_zero(export.flags | export.reserved)?;
    let rights = rights_of(export.rights)?;
    if !rights.read {
        return Err(EINVAL);
    }
    let holding = context.segment(export.handle)?;
    check_rights(holding.rights(), rights)?;
    let piece = holding.lasting()?;
    let of_buffer = of_segment(context, &holding, rights)?;
    let memory = Lasting::new(piece, rights.write, of_buffer)?;
    let memory: Arc<dyn Buffer> = Arc::new(memory, GFP_KERNEL_ACCOUNT)?;
    let module = MODULE.as_ref().ok_or(ENODEV)?;
    let file = dma_buf::export(module, c"mp_fabric", memory)?;
    export.fd = file.number();
    write_versioned(arg, size, &export)?;
    file.install();
    Ok(())
}

/// Whether who has some rights may hand over others.
///
/// # Errors
///
/// `EACCES`.
fn check_rights(has: Rights, wanted: Rights) -> Result {
    match has.and(wanted) == wanted {
        true => Ok(()),
        false => Err(EACCES),
    }
}

/// One more use of a segment, that of a descriptor.
///
/// # Errors
///
/// `EACCES`, `EDQUOT`, `ENOENT` if the segment has ended, `ENOMEM`.
fn of_segment(context: &Context, holding: &Holding, rights: Rights) -> Result<Export> {
    check_rights(holding.rights(), rights)?;
    let (shares, _) = context.share_object(Make::Attachment)?;
    let shared = context.shared();
    let holding = holding.hand(shared.next_handle(), Role::Carried)?;
    Ok(Export {
        what: What::Segment(holding),
        rights,
        shared: shared.clone(),
        _shares: shares,
    })
}

/// What a connection is asked for by once more, with those rights.
///
/// # Errors
///
/// `EINVAL`, `EACCES`, and those of [`Connection::check`] and [`Session::check_paired`].
fn of_connection(context: &Context, connection: &Connection, rights: Rights) -> Result<What> {
    let goal = connection.goal();
    if goal.want.object != sharing::Object::Segment && !rights.write {
        return Err(EINVAL);
    }
    check_rights(connection.rights(), rights)?;
    connection.check()?;
    let session = match goal.want.session {
        0 => None,
        handle => {
            let session = context.session(handle).map_err(|_| error::reset())?;
            session.check_paired()?;
            Some((session.number(), session.ready().clone()))
        }
    };
    Ok(What::Connection {
        link: connection.link().clone(),
        goal: Goal {
            most: rights,
            ..goal.clone()
        },
        session,
    })
}

/// Deal with `MP_IOC_EXPORT`.
///
/// # Errors
///
/// Those in the header.
pub(crate) fn export(context: &Context, arg: UserPtr) -> Result {
    let (mut export, size) = read_sized::<mp_export>(arg)?;
    expect_zero(export.flags | export.reserved)?;
    let rights = rights_of(export.rights)?;
    if context.session(export.handle).is_ok() {
        return Err(EINVAL);
    }
    let made = match context.object(export.handle)? {
        Object::Segment(_) if !rights.read => return Err(EINVAL),
        Object::Segment(holding) => of_segment(context, &holding, rights)?,
        Object::Connection(connection) => {
            let what = of_connection(context, &connection, rights)?;
            let (shares, _) = context.share_object(Make::Other)?;
            Export {
                what,
                rights,
                shared: context.shared().clone(),
                _shares: shares,
            }
        }
        _ => return Err(EINVAL),
    };
    let file = EXPORTS.make(Arc::new(made, GFP_KERNEL_ACCOUNT)?)?;
    export.fd = file.number();
    write_versioned(arg, size, &export)?;
    file.install();
    Ok(())
}

/// Whether a session is there still, and has its partner.
///
/// # Errors
///
/// `ECONNRESET` if it was closed, those of [`Session::check_paired`].
fn check_session(link: &Link, (number, ready): &(u32, Arc<Ready>)) -> Result {
    match link.session(*number) {
        Some(session) if Arc::ptr_eq(session.ready(), ready) => session.check_paired(),
        _ => Err(error::reset()),
    }
}

/// Connect as an export says.
fn connect(
    context: &Context,
    link: &Arc<Link>,
    goal: &Goal,
    session: Option<&(u32, Arc<Ready>)>,
    until: u64,
) -> Result<Object> {
    if let Some(session) = session {
        check_session(link, session)?;
    }
    let number = context.shared().next_handle();
    let word = context.status().word()?;
    let payers = context.payers();
    let payer = payers.outermost();
    let connection = Connection::new(number, link.clone(), goal.clone(), word, payer)?;
    let connected = link.connect(&connection, payers, deadline(until));
    connected.map_err(|e| match e {
        // The interface of the connection that was handed over.
        e if e == ENODEV => error::reset(),
        e => e,
    })?;
    Ok(Object::Connection(connection))
}

/// Deal with `MP_IOC_IMPORT`.
///
/// # Errors
///
/// Those in the header.
pub(crate) fn import(context: &Context, arg: UserPtr) -> Result {
    let (mut import, size) = read_sized::<mp_import>(arg)?;
    expect_zero(import.flags)?;
    let export = EXPORTS.find(import.fd)?;
    let object = match &export.what {
        What::Segment(holding) => context.make(Make::Attachment, || {
            let role = Role::Handed(export.rights);
            let holding = holding.hand(context.shared().next_handle(), role)?;
            Ok(Object::Segment(holding))
        })?,
        What::Connection {
            link,
            goal,
            session,
        } => context.make(Make::Connection, || {
            connect(context, link, goal, session.as_ref(), import.deadline)
        })?,
    };
    import.rights = rights_word(export.rights);
    (import.object, import.handle) = match &object {
        Object::Connection(connection) => {
            import.rights = rights_word(connection.rights());
            (MP_OBJECT_CONNECTION, connection.number())
        }
        object => (MP_OBJECT_SEGMENT, object.number()),
    };
    answer(context, arg, size, &import, import.handle)
}
