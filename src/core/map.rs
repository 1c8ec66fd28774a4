//! A map for a handful of entries: a sorted vector with the interface of a `BTreeMap`, at a tenth of its size in the
//! module. Iteration is in the order of the keys, so that the same inputs give the same outputs.

/// A sorted vector of keys and values.
#[derive(Debug)]
pub(crate) struct SmallMap<K, V>(Vec<(K, V)>);

impl<K, V> Default for SmallMap<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Ord, V> SmallMap<K, V> {
    fn find(&self, key: &K) -> Result<usize, usize> {
        self.0.binary_search_by(|(k, _)| k.cmp(key))
    }

    pub(crate) fn contains_key(&self, key: &K) -> bool {
        self.find(key).is_ok()
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.find(key).ok().and_then(|at| self.0.get(at)).map(|(_, v)| v)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.find(key).ok().and_then(|at| self.0.get_mut(at)).map(|(_, v)| v)
    }

    /// Puts a value under a key in the place of an earlier one.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        match self.find(&key) {
            Ok(at) => {
                if let Some((_, v)) = self.0.get_mut(at) {
                    *v = value;
                }
            }
            Err(at) => self.0.insert(at, (key, value)),
        }
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        self.find(key).ok().map(|at| self.0.remove(at).1)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.0.iter().map(|(k, v)| (k, v))
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.iter().map(|(k, _)| k)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().map(|(_, v)| v)
    }

    #[allow(clippy::type_complexity, reason = "an alias would say less than the type")]
    // A named type: an opaque one would hold the borrow until its end of scope.
    pub(crate) fn values_mut(&mut self) -> std::iter::Map<std::slice::IterMut<'_, (K, V)>, fn(&mut (K, V)) -> &mut V> {
        self.0.iter_mut().map(|(_, v)| v)
    }
}
