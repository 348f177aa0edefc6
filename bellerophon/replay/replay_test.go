package replay

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/controller/recording"
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

func TestNoRecordingSteersTheTerminal(t *testing.T) {
	var out bytes.Buffer
	to := screen.To(&out)
	Difference{Controller: "\x1b]0;x\a", Object: "a/b", ID: "\x1b[2J", Lines: []string{"- failed: \x1b[1A\nall decided as in the recording", "  "}}.print(to)
	head(to, &recording.Recording{Version: "\x1b[2J", IsWhole: true}, Report{})
	if text := out.String(); strings.ContainsAny(text, "\x1b\a") || strings.Count(text, "\n") != 4 {
		t.Errorf("it prints %q", text)
	}
}
