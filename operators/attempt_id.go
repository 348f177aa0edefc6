package operators

import (
	"encoding/binary"
	"encoding/hex"
	"hash/maphash"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// attemptSeed is the key of the process for AttemptID.
var attemptSeed = maphash.MakeSeed()

// AttemptID returns an identifier of an attempt: 16 hexadecimal digits. No two attempts for one object start at
// the same time. The hash has a random key of this process. So metrics may show an ID: it confirms no guess of an
// object's name.
func AttemptID(controller string, object types.NamespacedName, started time.Time) string {
	var hash maphash.Hash
	hash.SetSeed(attemptSeed)
	for _, part := range []string{controller, object.Namespace, object.Name} {
		_, _ = hash.WriteString(part) // A hash never fails.
		_ = hash.WriteByte(0)
	}
	_, _ = hash.Write(binary.BigEndian.AppendUint64(nil, uint64(started.UnixNano())))
	return hex.EncodeToString(hash.Sum(nil))
}
