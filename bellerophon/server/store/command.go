package store

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"
)

// Limits of keys and values. They keep a command far below the size at which its replication would delay
// the heartbeats of the leader.
const (
	MaxKey   = 1 << 10 // bytes
	MaxValue = 1 << 20 // bytes
)

// ErrInvalid is the error of a command that breaks a rule for keys or values.
var ErrInvalid = errors.New("invalid")

// Kind is what a command does.
type Kind uint8

// The kinds. Their numbers are in the log of existing members.
const (
	Put Kind = iota + 1
	Delete
	// Stage adds a part to a restore, whose name is the key: see [Restoration].
	Stage
	// Replace completes a restore.
	Replace
)

// Command is one change of a key. Its encoding is CBOR with numbers as names of fields.
type Command struct {
	Kind  Kind   `cbor:"1,keyasint"`
	Key   string `cbor:"2,keyasint"`
	Value []byte `cbor:"3,keyasint,omitempty"`
	// If is the revision that the key must have, or nil for any. Revision 0 means that the key must not exist.
	If *uint64 `cbor:"4,keyasint,omitempty"`
	// Part is the number of a part of a restore, from 0.
	Part        uint64       `cbor:"5,keyasint,omitempty"`
	Restoration *Restoration `cbor:"6,keyasint,omitempty"`
}

// Result is the outcome of a command. It is the same on all members.
type Result struct {
	// Revision is the revision of the store after the command.
	Revision uint64
	// Key is the revision of the key after the command: 0 if the key does not exist.
	Key uint64
	// Refused means that the key did not have the revision that the command asked for.
	Refused bool
	// Changed reports whether the command changed the store. The deletion of a missing key does not.
	Changed bool
	// Lost means that the store does not have the earlier parts of the restore. Another one has begun, or the parts are too old.
	Lost bool
}

// ValidateKey reports why a text cannot be a key. The error wraps [ErrInvalid].
func ValidateKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w key: it is empty; allowed are 1 to %d bytes", ErrInvalid, MaxKey)
	case len(key) > MaxKey:
		return fmt.Errorf("%w key: it has %d bytes; allowed are 1 to %d", ErrInvalid, len(key), MaxKey)
	case !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl):
		return fmt.Errorf("%w key %q: allowed is UTF-8 without control characters", ErrInvalid, key)
	}
	return nil
}

// Encode returns the encoding of a command for the replicated log.
func (c Command) Encode() ([]byte, error) { return cbor.Marshal(c) }

// Decode returns the command of an encoding.
func Decode(content []byte) (c Command, err error) {
	if err := cbor.Unmarshal(content, &c); err != nil {
		return Command{}, fmt.Errorf("decoding a command: %w", err)
	}
	if c.Kind < Put || c.Kind > Replace || c.Kind == Replace && c.Restoration == nil {
		return Command{}, fmt.Errorf("decoding a command: its kind %d is unknown", c.Kind)
	}
	return c, nil
}
