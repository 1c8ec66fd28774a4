//! Random bits from `crypto.getRandomValues`, which is there in insecure contexts too (`crypto.randomUUID` is not).

use std::cell::RefCell;

use patchkeep_core::ids::Uuid;
use wasm_bindgen::prelude::wasm_bindgen;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = crypto, js_name = getRandomValues)]
    fn get_random_values(bytes: &mut [u8]);
}

/// A fresh version 4 UUID.
pub fn uuid() -> Uuid {
    Uuid::v4(bits())
}

/// Two fresh numbers, as every input of the core carries them.
pub fn pair() -> [u128; 2] {
    [bits(), bits()]
}

/// 128 fresh bits.
pub fn bits() -> u128 {
    POOL.with_borrow_mut(Pool::take)
}

/// Bits drawn ahead, so that an input costs no call into JavaScript. No bit is handed out twice.
struct Pool {
    bytes: [u8; POOL_BYTES],
    used: usize,
}

impl Pool {
    fn take(&mut self) -> u128 {
        if self.used == POOL_BYTES {
            get_random_values(&mut self.bytes);
            self.used = 0;
        }
        let mut taken = [0; TAKEN_BYTES];
        for (to, from) in taken.iter_mut().zip(self.bytes.iter_mut().skip(self.used)) {
            *to = std::mem::take(from);
        }
        self.used += TAKEN_BYTES;
        u128::from_le_bytes(taken)
    }
}

thread_local! {
    static POOL: RefCell<Pool> = const { RefCell::new(Pool { bytes: [0; POOL_BYTES], used: POOL_BYTES }) };
}

const TAKEN_BYTES: usize = 16;
const POOL_BYTES: usize = 64 * TAKEN_BYTES;
