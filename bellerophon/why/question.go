// Package why asks a running operator what it has done for an object, and tells a person.
package why

import (
	"net/url"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/ask"
	"github.com/bellerophon-io/bellerophon/controller/history"
)

// Question returns the question for an object, given as RESOURCE/NAME.
func Question(object, namespace string, follow bool) ask.Question {
	return ask.Question{Path: "/debug/why", Query: url.Values{"object": {object}, "namespace": {namespace}}, Follow: follow}
}

// IsNewer reports whether an answer has a later attempt than another one: its replica works on the object.
func IsNewer(one, than history.Answer) bool { return lastOf(one).After(lastOf(than)) }

// lastOf returns when the last attempt of an answer began.
func lastOf(answer history.Answer) (last time.Time) {
	for _, controller := range answer.Controllers {
		if count := len(controller.Attempts); count > 0 && controller.Attempts[count-1].Started.After(last) {
			last = controller.Attempts[count-1].Started
		}
	}
	return last
}
