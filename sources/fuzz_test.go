package sources

import (
	"encoding/json"
	"errors"
	"testing"
)

// The answer to a list may come from a proxy or from another server. An answer that is no list of the kind must not count as an empty one,
// because then all objects would count as deleted.
func FuzzOnlyAListOfTheKindIsAnEmptyList(f *testing.F) {
	f.Add([]byte(`{"kind":"HeroList","apiVersion":"stable.example.com/v1","items":[]}`))
	f.Add([]byte(`{"kind":"Status","apiVersion":"v1"}`))
	f.Add([]byte(`{"kind":"HeroList","apiVersion":"stable.example.com/v1"}`))
	f.Add([]byte("k8s\x00\x0a\x0b\x0a\x02v1\x12\x05Thing"))
	f.Add([]byte("<html>"))
	f.Fuzz(func(t *testing.T, body []byte) {
		err := Kind{GroupVersionKind: heroKind}.isEmptyList(body)
		if err != nil {
			if !errors.Is(err, errNoList) {
				t.Errorf("%q has the error %v", body, err)
			}
			return
		}
		var is struct{ Kind, APIVersion string }
		isJSON := json.Unmarshal(body, &is) == nil
		if isJSON && (is.APIVersion != heroKind.GroupVersion().String() || is.Kind == "") {
			t.Errorf("%q counts as an empty list", body)
		}
	})
}
