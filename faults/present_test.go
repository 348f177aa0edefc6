package faults

import "testing"

func TestAnObjectThatWasDeletedAndCreatedAgainIsReplaced(t *testing.T) {
	before := identities{"services/a": "1", "services/b": "2"}
	for name, test := range map[string]struct {
		after identities
		want  string
	}{
		"nothing happened": {identities{"services/a": "1", "services/b": "2", "services/new": "3"}, ""},
		"one is missing":   {identities{"services/a": "1"}, ""},
		"one is another":   {identities{"services/a": "1", "services/b": "3"}, "services/b had uid 2 and has 3"},
	} {
		if got := before.replaced(test.after); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
