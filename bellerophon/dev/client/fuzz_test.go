package client_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/client"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	corev1 "k8s.io/api/core/v1"
)

// The status has the output of commands in a container, and is in a ConfigMap that others may write. None may steer the terminal.
func FuzzNoStatusSteersTheTerminal(f *testing.F) {
	f.Add(`{"state":"RunCommandRunning","sync":{"root":"r","sent":1,"problems":["a\u001b[31m"]},"build":{"name":"b","outcome":"Failed","exit":1,"output":"\u001b]0;x\u0007\rz"},"ports":[{"name":"\u0008"}]}`)
	f.Add(`{"state":"\u001b[2J","message":"a\nb\u009b","objects":[{"name":"x"}]}`)
	made, err := contract.Status{}.ConfigMap("a", "b")
	if err != nil {
		f.Fatal(err)
	}
	var key string
	for each := range made.Data {
		if strings.HasPrefix(made.Data[each], "{") {
			key = each
		}
	}
	f.Fuzz(func(t *testing.T, status string) {
		read, err := contract.StatusOf(&corev1.ConfigMap{Data: map[string]string{key: status}})
		if err != nil {
			return
		}
		var out bytes.Buffer
		client.NewScreen(screen.To(&out)).Show(client.View{Status: read})
		if strings.ContainsFunc(out.String(), func(r rune) bool { return unicode.IsControl(r) && r != '\n' }) {
			t.Errorf("of %s it prints %q", status, out.String())
		}
	})
}
