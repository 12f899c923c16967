// SPDX-License-Identifier: MIT OR Apache-2.0

//! What this process has open: all objects, by their handles.
//!
//! Nothing of it is of use to a forked child, which starts with nothing: its parent's handles are
//! invalid there (VI-GEN-9).

use mp_c_abi::{Handle, Table};
use mp_fabric::Device;
use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};
use vipl::{Cq, Error, Library, NameService, Nic, Request, Result, Vi, HOST_ADDRESS_LEN};

/// How the library is loaded when a process opens a NIC.
pub type Load<D> = &'static (dyn Fn() -> Library<D> + Sync);

/// What a handle is of. The numbers are the upper bits of every handle: not canonical on any
/// processor, so of no address (VI-GEN-5). 0x71A1 is that of protection tags.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Nic = 0x71A2,
    Vi,
    Cq,
    Conn,
}

/// What a process has open.
pub struct Process<D: Device> {
    load: Load<D>,
    library: OnceLock<Library<D>>,
    pub nics: Table<Arc<NicObject<D>>>,
    pub vis: Table<Arc<Made<D, Vi<D>>>>,
    pub cqs: Table<Arc<Made<D, Cq<D>>>>,
    pub conns: Table<Arc<Made<D, Request<D>>>>,
}

/// A NIC that was opened.
pub struct NicObject<D: Device> {
    pub handle: Handle,
    pub nic: Nic<D>,
    /// The address that `VipQueryNic` leads to (VI-QRY-2).
    pub address: [u8; HOST_ADDRESS_LEN],
    pub names: NameService,
    /// Handles of what was made with it; nothing once it is closed.
    made: Mutex<Option<HashSet<Handle>>>,
}

/// An object that was made with a NIC and ends with it.
pub struct Made<D: Device, T> {
    pub object: T,
    pub nic: Arc<NicObject<D>>,
}

impl<D: Device> Process<D> {
    /// One that has nothing.
    pub fn new(load: Load<D>) -> Self {
        Process {
            load,
            library: OnceLock::new(),
            nics: Table::new(Kind::Nic as u16),
            vis: Table::new(Kind::Vi as u16),
            cqs: Table::new(Kind::Cq as u16),
            conns: Table::new(Kind::Conn as u16),
        }
    }

    /// The library, which is loaded once: it knows which pages are locked (VI-MEM-3).
    pub fn library(&self) -> &Library<D> {
        self.library.get_or_init(self.load)
    }

    /// Make the handle of a NIC, and those of all that was made with it, lead nowhere (VI-NIC-5).
    pub fn forget(&self, nic: &NicObject<D>) {
        self.nics.forget(nic.handle);
        let made = nic.made().take().unwrap_or_default();
        for handle in made {
            // Each is in one of them.
            self.vis.forget(handle);
            self.cqs.forget(handle);
            self.conns.forget(handle);
        }
    }
}

impl<D: Device> NicObject<D> {
    pub fn new(handle: Handle, nic: Nic<D>, address: [u8; HOST_ADDRESS_LEN]) -> Self {
        NicObject {
            handle,
            nic,
            address,
            names: NameService::default(),
            made: Mutex::new(Some(HashSet::new())),
        }
    }

    fn made(&self) -> MutexGuard<'_, Option<HashSet<Handle>>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Device, T> Made<D, T> {
    /// A handle for an object that is to be made.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: the NIC has been closed. [`Error::Resource`].
    pub fn reserve(table: &Table<Arc<Self>>, nic: &NicObject<D>) -> Result<Handle> {
        let mut made = nic.made();
        let made = made.as_mut().ok_or(Error::InvalidParameter)?;
        made.try_reserve(1).map_err(|_| Error::Resource)?;
        table.reserve().map_err(|_| Error::Resource)
    }

    /// Make a handle lead to an object, until its NIC is closed.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: it has been closed.
    pub fn enter(
        table: &Table<Arc<Self>>,
        nic: &Arc<NicObject<D>>,
        handle: Handle,
        object: T,
    ) -> Result<()> {
        let mut made = nic.made();
        let made = made.as_mut().ok_or(Error::InvalidParameter)?;
        made.insert(handle);
        let nic = Arc::clone(nic);
        table.enter(handle, Arc::new(Made { object, nic }));
        Ok(())
    }

    /// Make the handle of an object lead nowhere.
    pub fn forget(&self, table: &Table<Arc<Self>>, handle: Handle) {
        if let Some(made) = &mut *self.nic.made() {
            made.remove(&handle);
        }
        table.forget(handle);
    }
}
