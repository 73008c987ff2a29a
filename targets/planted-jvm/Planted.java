import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/**
 * An event loop on the JVM with one known cause of slowness, so that an explanation can be checked
 * against the truth. Usage: Planted HOST PORT PLANT THREADS. On SIGTERM it says what it served.
 */
public final class Planted {
    private static final int HEAD_BYTES_MAX = 8192;
    private static final int WAIT_NS = 50_000;
    /** What is in it has left the young generation when it is replaced: full collections are needed. */
    private static final Object[] CACHE = new Object[20_000];
    /** 100 objects of 24 bytes: 46 MiB when the cache is full. */
    private static final int CHAIN_LINKS = 100;
    private static final DateTimeFormatter DATE =
        DateTimeFormatter.ofPattern("EEE, dd MMM yyyy HH:mm:ss 'GMT'", Locale.ENGLISH);
    private static final AtomicLong REQUESTS = new AtomicLong();
    private static final Object LOCK = new Object();

    private final Selector selector = Selector.open();
    private final Runnable plant;
    private byte[] ok;
    private byte[] notFound;
    private long madeAt;

    private Planted(Runnable plant) throws IOException {
        this.plant = plant;
    }

    public static void main(String[] arguments) throws IOException {
        Runnable plant = plant(arguments[2]);
        Planted[] loops = new Planted[Integer.parseInt(arguments[3])];
        for (int i = 0; i < loops.length; i++) {
            Planted loop = loops[i] = new Planted(plant);
            new Thread(loop::run, "loop-" + i).start();
        }
        Runtime.getRuntime().addShutdownHook(new Thread(() -> System.err.printf(
            "planted-jvm: plant=%s requests=%d%n", arguments[2], REQUESTS.get())));
        ServerSocketChannel listener = ServerSocketChannel.open();
        listener.bind(new InetSocketAddress(arguments[0], Integer.parseInt(arguments[1])), 4096);
        for (int turn = 0; ; turn++) {
            loops[turn % loops.length].add(listener.accept());
        }
    }

    private static Runnable plant(String name) {
        switch (name) {
            case "none": return () -> { };
            case "gc": return () -> CACHE[(int) (REQUESTS.get() % CACHE.length)] = chain();
            case "wait": return () -> LockSupport.parkNanos(WAIT_NS);
            case "lock": return () -> {
                synchronized (LOCK) {
                    LockSupport.parkNanos(WAIT_NS);
                }
            };
            default: throw new IllegalArgumentException("no plant " + name);
        }
    }

    private static Object chain() {
        Object[] last = null;
        for (int i = 0; i < CHAIN_LINKS; i++) {
            last = new Object[] {last};
        }
        return last;
    }

    private void add(SocketChannel socket) throws IOException {
        socket.configureBlocking(false);
        socket.setOption(StandardSocketOptions.TCP_NODELAY, true);
        socket.register(selector, SelectionKey.OP_READ, ByteBuffer.allocate(HEAD_BYTES_MAX));
        selector.wakeup();
    }

    private void run() {
        while (true) {
            try {
                selector.select(this::serve);
            } catch (IOException e) {
                throw new IllegalStateException("the selector broke", e);
            }
        }
    }

    private void serve(SelectionKey key) {
        try {
            if (!readAndAnswer((SocketChannel) key.channel(), (ByteBuffer) key.attachment())) {
                key.channel().close();
            }
        } catch (IOException e) {
            key.cancel(); // the client went away
        }
    }

    /** False when the connection is to be closed. */
    private boolean readAndAnswer(SocketChannel socket, ByteBuffer input) throws IOException {
        if (socket.read(input) < 0) {
            return false;
        }
        makeAnswers();
        ByteBuffer output = ByteBuffer.allocate(1 << 16); // 400 requests of 18 bytes fit into a head's buffer
        boolean keep = true;
        int end;
        String text = new String(input.array(), 0, input.position(), StandardCharsets.ISO_8859_1);
        int at = 0;
        while (keep && (end = text.indexOf("\r\n\r\n", at)) >= 0) {
            keep = answer(text.substring(at, end), output);
            at = end + 4;
        }
        input.flip().position(at);
        input.compact();
        for (output.flip(); output.hasRemaining(); ) {
            socket.write(output); // spins while the socket is full: our clients read
        }
        return keep && input.hasRemaining();
    }

    private boolean answer(String head, ByteBuffer output) {
        plant.run();
        REQUESTS.incrementAndGet();
        byte[] answer = head.regionMatches(head.indexOf(' '), " /plaintext ", 0, 12) ? ok : notFound;
        int body = answer == ok ? 13 : 9;
        output.put(answer, 0, head.startsWith("HEAD ") ? answer.length - body : answer.length);
        return !head.toLowerCase().contains("\r\nconnection: close");
    }

    private void makeAnswers() {
        long second = System.currentTimeMillis() / 1000;
        if (second == madeAt) {
            return;
        }
        madeAt = second;
        ok = answerBytes("200 OK", "Hello, World!");
        notFound = answerBytes("404 Not Found", "Not Found");
    }

    private static byte[] answerBytes(String status, String body) {
        String date = DATE.format(ZonedDateTime.now(ZoneOffset.UTC));
        String head = "HTTP/1.1 %s\r\nServer: whyslow\r\nDate: %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n";
        return (String.format(head, status, date, body.length()) + body).getBytes(StandardCharsets.US_ASCII);
    }
}
