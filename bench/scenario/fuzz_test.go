package scenario

import (
	"strings"
	"testing"
)

func FuzzAnyScenarioIsReadBackFromItsText(f *testing.F) {
	for _, name := range Names() {
		f.Add(name+":n=3:rtt=1", false)
	}
	f.Add("all", true)
	f.Add("burst:n=99999999999999999999,", false)
	f.Fuzz(func(t *testing.T, text string, full bool) {
		chosen, err := Parse(text, full)
		if (len(chosen) == 0) != (err != nil) {
			t.Fatalf("%q is %v with the error %v", text, chosen, err)
		}
		for _, one := range chosen {
			again, err := Parse(one.Name+":"+strings.ReplaceAll(one.String(), ",", ":"), full)
			if err != nil || len(again) != 1 || again[0].Variant != one.Variant {
				t.Errorf("%q is read back as %v (%v)", one, again, err)
			}
		}
	})
}
