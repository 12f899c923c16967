// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The host of the object: what its guests do, and what its owner does to them.

use crate::name::Name;
use crate::rows::{find, find_mut, Table};
use crate::sharing::message::{Message, What};
use crate::sharing::{
    Corrupt, Engine, Entry, Event, Grant, Guest, Host, NoGrant, Own, Stage, Unheard, Want, Why,
    ENDED, TOKEN,
};

/// What a guest is told, unless that is for later.
fn answer(granted: Result<Grant, NoGrant>) -> Result<Result<Grant, Why>, Unheard> {
    match granted {
        Ok(grant) => Ok(Ok(grant)),
        Err(NoGrant::Refused(why)) => Ok(Err(why)),
        Err(NoGrant::Later) => Err(Unheard::Later),
    }
}

impl<O: Table<Own>, G: Table<Entry>> Engine<O, G> {
    /// The guests that are connected to what has that token, whether or not their link is up.
    pub fn guests(&self, token: u32) -> impl Iterator<Item = &Guest> + '_ {
        let all = self.guests.iter_in(TOKEN, u64::from(token));
        all.filter(|entry| entry.stage != Stage::Ended)
            .map(|entry| &entry.guest)
    }

    /// Ask all guests of what has that token to leave, each once.
    pub fn withdraw(&mut self, token: u32, host: &mut impl Host) {
        self.guests.retain_in(TOKEN, u64::from(token), |entry| {
            let was_asked = core::mem::replace(&mut entry.withdrawn, true);
            if entry.stage == Stage::Up && !was_asked {
                host.say(Message {
                    connection: entry.guest.number,
                    what: What::Withdrawn,
                });
            }
            true
        });
    }

    /// End the connections of all guests of what has that token, and say how many there were.
    /// [`Event::LetGo`] follows for each.
    pub fn end(&mut self, token: u32, host: &mut impl Host) -> usize {
        self.end_if(token, |_| true, host)
    }

    /// End the connection of one guest, as [`end`](Self::end) does.
    pub fn end_guest(&mut self, number: u32, host: &mut impl Host) {
        if let Some(entry) = find(&self.guests, number) {
            let token = entry.guest.token;
            self.end_if(token, |guest| guest.number == number, host);
        }
    }

    fn end_if(
        &mut self,
        token: u32,
        is_meant: impl Fn(&Guest) -> bool,
        host: &mut impl Host,
    ) -> usize {
        let mut ended = 0;
        let is_up = self.is_up;
        self.guests.retain_in(TOKEN, u64::from(token), |entry| {
            let guest = entry.guest;
            if !is_meant(&guest) {
                return true;
            }
            match entry.stage {
                Stage::Up => {
                    entry.stage = Stage::Ended;
                    host.say(Message {
                        connection: guest.number,
                        what: What::Ended,
                    });
                    ended += 1;
                }
                // Nothing to be resumed is found; but the other host may not know yet.
                Stage::Down if guest.reaches_memory() && !is_up => {
                    entry.stage = Stage::Ended;
                    ended += 1;
                }
                Stage::Down => {
                    host.event(Event::LetGo(guest));
                    ended += 1;
                    return false;
                }
                Stage::Ended => {}
            }
            true
        });
        ended
    }

    /// The guests that were ended or lost, and of which it is not proven that they reach no memory,
    /// by their numbers.
    pub fn ending(&self) -> impl Iterator<Item = u32> + '_ {
        let ended = self.guests.iter_in(ENDED, 0);
        ended.map(|entry| entry.guest.number)
    }

    /// A guest has left, and all that it has sent has been dealt with.
    pub fn left(&mut self, number: u32, host: &mut impl Host) {
        let Some(entry) = find(&self.guests, number) else {
            return;
        };
        let (guest, stage) = (entry.guest, entry.stage);
        self.guests.remove(number);
        host.event(match stage {
            Stage::Ended => Event::LetGo(guest),
            _ => Event::GuestLeft(guest),
        });
    }

    pub(super) fn hear_connect(
        &mut self,
        number: u32,
        want: Want,
        name: &Name,
        host: &mut impl Host,
    ) -> Result<(), Unheard> {
        if number == 0 || find(&self.guests, number).is_some() {
            return Err(Unheard::Corrupt);
        }
        let accepted = match self.guests.has_place(usize::MAX) {
            true => answer(host.accept(number, &want, name))?,
            false => Err(Why::Refused),
        };
        let what = match accepted {
            Ok(grant) => {
                let guest = Guest {
                    number,
                    want,
                    token: grant.token,
                };
                let entry = Entry {
                    guest,
                    stage: Stage::Up,
                    withdrawn: false,
                };
                // There is a place.
                let _ = self.guests.insert(entry);
                What::Connected(grant)
            }
            Err(why) => What::Refused(why),
        };
        host.say(Message {
            connection: number,
            what,
        });
        Ok(())
    }

    pub(super) fn hear_resume(
        &mut self,
        number: u32,
        want: Want,
        token: u32,
        host: &mut impl Host,
    ) -> Result<(), Unheard> {
        let refuse = |host: &mut _, why| {
            Host::say(
                host,
                Message {
                    connection: number,
                    what: What::Refused(why),
                },
            );
        };
        let Some(mut entry) = find_mut(&mut self.guests, number) else {
            refuse(host, Why::NotFound);
            return Ok(());
        };
        if entry.stage != Stage::Down {
            return Err(Unheard::Corrupt);
        }
        let guest = entry.guest;
        if guest.token != token || guest.want != want {
            return Err(Unheard::Corrupt);
        }
        match answer(host.accept_again(&guest))? {
            Ok(grant) => {
                entry.stage = Stage::Up;
                host.event(Event::GuestUp(guest));
                host.say(Message {
                    connection: number,
                    what: What::Connected(grant),
                });
                if entry.withdrawn {
                    host.say(Message {
                        connection: number,
                        what: What::Withdrawn,
                    });
                }
            }
            Err(why) => {
                drop(entry);
                self.guests.remove(number);
                host.event(Event::GuestLost(guest));
                if guest.reaches_memory() {
                    // In this epoch it has not been shown any.
                    host.event(Event::LetGo(guest));
                }
                refuse(host, why);
            }
        }
        Ok(())
    }

    /// Who has not resumed by now has left meanwhile.
    pub(super) fn hear_resumed(&mut self, host: &mut impl Host) {
        self.guests.retain(|entry| {
            let is_down = entry.stage == Stage::Down;
            if is_down {
                host.event(Event::GuestLeft(entry.guest));
            }
            !is_down
        });
    }

    pub(super) fn hear_gone(&mut self, number: u32, host: &mut impl Host) -> Result<(), Corrupt> {
        let Some(entry) = find(&self.guests, number) else {
            return Ok(());
        };
        if entry.stage != Stage::Ended {
            return Err(Corrupt);
        }
        let guest = entry.guest;
        self.guests.remove(number);
        host.event(Event::LetGo(guest));
        Ok(())
    }
}
