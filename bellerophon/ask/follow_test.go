package ask_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/ask"
)

// step is the result of one question: answers, and how the last one ends.
type step struct {
	answers int
	err     error
}

// followSteps follows an operator whose questions have the results of steps, and then the last one again and again.
func followSteps(ctx context.Context, shown func(int) error, steps ...step) (answers int, lost []string, asked int, err error) {
	err = ask.Follow(ctx, func(_ context.Context, each func(int) error) error {
		of := steps[min(asked, len(steps)-1)]
		asked++
		for range of.answers {
			if err := each(asked); err != nil {
				return err
			}
		}
		return of.err
	}, func(answer int) error {
		answers++
		return shown(answer)
	}, func(reason error) { lost = append(lost, reason.Error()) })
	return answers, lost, asked, err
}

func TestAnOperatorThatEndsIsAskedAgainUntilItIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		refused := errors.New("connection refused")
		began := time.Now()
		answers, lost, asked, err := followSteps(ctx, func(question int) error {
			if question == 6 {
				cancel()
			}
			return nil
		}, step{2, nil}, step{0, refused}, step{0, refused}, step{1, errors.New("reset")}, step{0, refused}, step{1, nil})
		if err != nil || answers != 4 || asked != 6 || strings.Join(lost, ", ") != "the operator has ended, connection refused, reset, connection refused" {
			t.Errorf("%d answers to %d questions, lost %q, %v", answers, asked, lost, err)
		}
		if took := time.Since(began); took != (1+2+4+1+2)*time.Second {
			t.Errorf("the pauses take %v", took)
		}
	})
}

func TestFollowingEndsWhereAskingAgainCannotHelp(t *testing.T) {
	broken := errors.New("broken pipe")
	refusal := func(code int) error { return &ask.Refusal{Code: code} }
	for name, test := range map[string]struct {
		shown error
		steps []step
		want  func(error) bool
		took  time.Duration
	}{
		"the first question has no answer": {nil, []step{{0, broken}}, func(err error) bool { return errors.Is(err, broken) }, 0},
		"the answer cannot be shown":       {broken, []step{{1, nil}}, func(err error) bool { return errors.Is(err, broken) }, 0},
		"the user may not ask any more":    {nil, []step{{1, nil}, {0, refusal(http.StatusForbidden)}}, func(err error) bool { return err != nil }, time.Second},
		"the operator stays away": {nil, []step{{1, nil}, {0, refusal(http.StatusNotFound)}}, func(err error) bool {
			return err != nil && strings.Contains(err.Error(), "has not answered for 10m0s; run the command again")
		}, 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				_, _, _, err := followSteps(t.Context(), func(int) error { return test.shown }, test.steps...)
				if took := time.Since(began); !test.want(err) || took < test.took || took > test.took+10*time.Second {
					t.Errorf("it ends after %v with %v", took, err)
				}
			})
		})
	}
}
