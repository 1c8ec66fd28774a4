//! The writer: enough JSON for frames and records.

/// Appends a JSON string literal, escaped as RFC 8785 asks: the shortest form, nothing escaped that need not be.
pub fn write_string(out: &mut String, text: &str) {
    out.push('"');
    let mut from = 0;
    for (i, byte) in text.bytes().enumerate() {
        let short = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            0x08 => "\\b",
            b'\t' => "\\t",
            b'\n' => "\\n",
            0x0c => "\\f",
            b'\r' => "\\r",
            0..0x20 => "",
            _ => continue,
        };
        out.push_str(text.get(from..i).unwrap_or_default());
        from = i + 1;
        if short.is_empty() {
            const HEX: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
            out.push_str("\\u00");
            out.push(HEX[usize::from(byte >> 4)]);
            out.push(HEX[usize::from(byte & 0xf)]);
        } else {
            out.push_str(short);
        }
    }
    out.push_str(text.get(from..).unwrap_or_default());
    out.push('"');
}

/// Writes one object, member by member, in the order of the calls.
#[derive(Debug)]
pub struct ObjectWriter<'o> {
    out: &'o mut String,
    any: bool,
}

impl<'o> ObjectWriter<'o> {
    /// Opens an object at the end of `out`.
    pub fn new(out: &'o mut String) -> Self {
        out.push('{');
        Self { out, any: false }
    }

    /// Writes a key and returns the text to which exactly one value must be appended.
    pub fn value(&mut self, key: &str) -> &mut String {
        if self.any {
            self.out.push(',');
        }
        self.any = true;
        write_string(self.out, key);
        self.out.push(':');
        self.out
    }

    /// A string member.
    pub fn string(&mut self, key: &str, text: &str) -> &mut Self {
        write_string(self.value(key), text);
        self
    }

    /// A member whose value is written by its `Display`, as a string.
    pub fn display(&mut self, key: &str, value: impl std::fmt::Display) -> &mut Self {
        self.string(key, &value.to_string())
    }

    /// A whole number.
    pub fn integer(&mut self, key: &str, n: u64) -> &mut Self {
        self.value(key).push_str(&n.to_string());
        self
    }

    /// A boolean.
    pub fn bool(&mut self, key: &str, b: bool) -> &mut Self {
        self.value(key).push_str(if b { "true" } else { "false" });
        self
    }

    /// A member whose value is JSON text already.
    pub fn raw(&mut self, key: &str, json: &str) -> &mut Self {
        self.value(key).push_str(json);
        self
    }

    /// An array of what `item` writes.
    pub fn array<T>(
        &mut self,
        key: &str,
        items: impl IntoIterator<Item = T>,
        mut item: impl FnMut(&mut String, T),
    ) -> &mut Self {
        let out = self.value(key);
        out.push('[');
        for (i, entry) in items.into_iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            item(out, entry);
        }
        out.push(']');
        self
    }

    /// Closes the object.
    pub fn end(&mut self) {
        self.out.push('}');
    }
}
