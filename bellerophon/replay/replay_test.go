package replay

import (
	"errors"
	"testing"
)

func TestAReplayThatComparesNothingIsNoSuccess(t *testing.T) {
	for name, test := range map[string]struct {
		of     Report
		failed bool
	}{
		"all are equal":          {Report{Attempts: 2, Skipped: 1}, false},
		"there are no attempts":  {Report{}, false},
		"none could be compared": {Report{Skipped: 2}, true},
		"one differs":            {Report{Attempts: 2, Differences: []Difference{{}}}, true},
	} {
		err := test.of.verdict()
		var differs ErrDiffers
		if (err != nil) != test.failed || errors.As(err, &differs) != (len(test.of.Differences) > 0) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}
