package cache

import (
	"fmt"
	"strings"
)

// Level is how far the cache is in sync. Each level includes the levels before it. The package
// documentation describes what each level promises.
type Level uint8

// The levels.
const (
	Starting         Level = iota
	Listed                 // every kind's first list is complete
	Current                // the cache has all up to a version that the server confirmed recently
	OwnWritesVisible       // the watch has passed every own write
	Settled                // nothing is pending, and nothing has changed for Loop.QuietPeriod: by default, 10 loop durations
	Converged              // Settled, and the last attempt of every key succeeded and asked for nothing more
)

var levelNames = [...]string{"Starting", "Listed", "Current", "OwnWritesVisible", "Settled", "Converged"}

// String returns the level's name, or "Unknown".
func (l Level) String() string {
	if int(l) >= len(levelNames) {
		return "Unknown"
	}
	return levelNames[l]
}

// MarshalText returns the level's name.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText sets the level from its name. It returns an error for a name that is not a level's.
func (l *Level) UnmarshalText(name []byte) error {
	for level, known := range levelNames {
		if known == string(name) {
			*l = Level(level)
			return nil
		}
	}
	return fmt.Errorf("there is no level %q; allowed are %s", name, strings.Join(levelNames[:], ", "))
}
